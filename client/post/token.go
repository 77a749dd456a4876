package post

import (
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/reliability/secretfile"
)

// token is the bearer token, fixed or from a file. Neither field changes.
type token struct {
	fixed string
	file  *secretfile.File // nil: fixed is the token
}

func openToken(o *Options) (t token, err error) {
	switch {
	case o.TokenFile != "":
		if t.file, err = secretfile.Open(o.TokenFile, checkTokenFile); err != nil {
			return t, fmt.Errorf("token file: %w", err)
		}
	case o.Token != "":
		t.fixed, err = o.Token, checkToken([]byte(o.Token))
	}
	return t, err
}

// header is the Authorization header, "" for none. fresh checks the file now.
func (t token) header(fresh bool) string {
	value := t.fixed
	if t.file != nil {
		value = string(t.file.Value(fresh))
	}
	if value == "" {
		return ""
	}
	return "Bearer " + value
}

func checkTokenFile(raw []byte) error {
	if len(raw) == 0 {
		return errors.New("the file is empty")
	}
	return checkToken(raw)
}

func checkToken(raw []byte) error {
	for _, c := range raw {
		if c <= ' ' || c >= 0x7f {
			return errors.New("the token has characters that are invalid in an HTTP header")
		}
	}
	return nil
}
