package app

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/web/site"
)

// ackLinkLife is for how long a link to acknowledge an incident is valid.
const ackLinkLife = 7 * 24 * time.Hour

var linkKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ackLinks signs the links that acknowledge an incident without a login. Whoever has the key can make such links, so it
// stays in the data folder. Without the file all links are void.
type ackLinks struct {
	key []byte
	now func() time.Time
}

// newAckLinks reads the key, or makes it with the first start. The folder is ours by then.
func newAckLinks(f fsys.FS, dir string) (*ackLinks, error) {
	l := &ackLinks{now: time.Now}
	name := filepath.Join(dir, engine.LinkKeyFile)
	file, err := f.Open(name)
	if err == nil {
		data, err := io.ReadAll(io.LimitReader(file, 128))
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if !linkKey.Match(data) {
			return nil, fmt.Errorf("%s contains no key of 64 hexadecimal digits (remove the file; links to acknowledge incidents that were sent before are then void)", name)
		}
		l.key = data
		return l, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	l.key = []byte(hex.EncodeToString(b))
	err = fsys.WriteAtomic(f, name, func(w io.Writer) error {
		if err := os.Chmod(name+fsys.TempSuffix, 0o600); err != nil { // nothing is in it yet
			return err
		}
		_, err := w.Write(l.key)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return l, nil
}

func (l *ackLinks) signature(id, until string) []byte {
	mac := hmac.New(sha256.New, l.key)
	_, _ = fmt.Fprintf(mac, "acknowledge\x00%s\x00%s", id, until) // never fails
	return mac.Sum(nil)
}

// path is the address of the page that acknowledges an incident until a time, below the external path.
func (l *ackLinks) path(id string, until time.Time) string {
	at := strconv.FormatInt(until.Unix(), 10)
	q := url.Values{"until": {at}, "signature": {hex.EncodeToString(l.signature(id, at))}}
	return site.AcknowledgePath + url.PathEscape(id) + "?" + q.Encode()
}

// verify checks what path made. The error does not tell how the signature is wrong.
func (l *ackLinks) verify(id, until, signature string) error {
	given, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(given, l.signature(id, until)) {
		return errors.New("this link is not valid; it may have been cut off")
	}
	at, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !l.now().Before(time.Unix(at, 0)) {
		return errors.New("this link has expired")
	}
	return nil
}
