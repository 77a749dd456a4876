package client

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// tokenCheck is how often a token file is looked at.
const tokenCheck = 10 * time.Second

// token is the bearer token, from a file if there is one. While the file cannot be
// read the last good token stays: files are often replaced in two steps.
type token struct {
	file string

	mu      sync.Mutex
	header  string // "" is none
	changed time.Time
	size    int64
	looked  time.Time
}

func openToken(o *Options) (*token, error) {
	t := &token{file: o.TokenFile, looked: time.Now()}
	if o.TokenFile != "" {
		return t, t.read()
	}
	if o.Token == "" {
		return t, nil
	}
	if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	t.header = "Bearer " + o.Token
	return t, nil
}

// value is the Authorization header. fresh looks at the file now.
func (t *token) value(fresh bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == "" {
		return t.header
	}
	if now := time.Now(); fresh || now.Sub(t.looked) >= tokenCheck {
		t.looked = now
		if st, err := os.Stat(t.file); err == nil && (!st.ModTime().Equal(t.changed) || st.Size() != t.size) {
			_ = t.read() // the old one stays
		}
	}
	return t.header
}

func (t *token) read() error {
	st, err := os.Stat(t.file)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	raw, err := os.ReadFile(t.file)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return fmt.Errorf("token file %s is empty", t.file)
	}
	if err := checkToken(string(raw)); err != nil {
		return fmt.Errorf("token file %s: %w", t.file, err)
	}
	t.header, t.changed, t.size = "Bearer "+string(raw), st.ModTime(), st.Size()
	return nil
}

func checkToken(s string) error {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return errors.New("the token has characters that cannot be sent in a header")
		}
	}
	return nil
}
