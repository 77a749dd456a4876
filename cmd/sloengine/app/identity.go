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
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/web/site"
)

// instanceName is the random name of the engine of a data directory. It distinguishes the dead letters of engines that
// share a store.
func instanceName(f fsys.FS, dir string) (string, error) {
	return digitsFile{
		name: engine.InstanceFile, what: "instance name", digits: 12,
		lost: "dead letters of this engine that a crash interrupted may then be stored twice",
	}.readOrMake(f, dir)
}

// digitsFile holds random hexadecimal digits.
type digitsFile struct {
	name, what string
	digits     int
	private    bool   // only the owner may read it
	lost       string // without the file
}

// readOrMake makes the file with the first start.
func (i digitsFile) readOrMake(f fsys.FS, dir string) (string, error) {
	name := filepath.Join(dir, i.name)
	r, err := f.Open(name)
	if err == nil {
		data, err := io.ReadAll(io.LimitReader(r, 128))
		if err = errors.Join(err, r.Close()); err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if len(data) != i.digits || strings.Trim(string(data), "0123456789abcdef") != "" {
			return "", fmt.Errorf("%s contains no %s of %d hexadecimal digits (remove the file; %s)", name,
				i.what, i.digits, i.lost)
		}
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	b := make([]byte, i.digits/2)
	_, _ = rand.Read(b) // never fails
	text := hex.EncodeToString(b)
	err = fsys.WriteAtomic(f, name, func(w io.Writer) error {
		if i.private {
			if err := os.Chmod(name+fsys.TempSuffix, 0o600); err != nil { // nothing is in it yet
				return err
			}
		}
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return text, nil
}

// linkLife is for how long a link to acknowledge an incident is valid.
const linkLife = 7 * 24 * time.Hour

// ackLinks signs the links that acknowledge an incident without a login. Whoever has the key can make such links, so it
// stays in the data folder. Without the file all links are void.
type ackLinks struct {
	key []byte
	now func() time.Time
}

// newAckLinks reads the key, or makes it with the first start. The directory must be locked.
func newAckLinks(f fsys.FS, dir string) (*ackLinks, error) {
	key, err := digitsFile{
		name: engine.LinkKeyFile, what: "key", digits: 64, private: true,
		lost: "links to acknowledge incidents that were sent before are then void",
	}.readOrMake(f, dir)
	return &ackLinks{key: []byte(key), now: time.Now}, err
}

func (l *ackLinks) signature(id, until string) []byte {
	mac := hmac.New(sha256.New, l.key)
	_, _ = fmt.Fprintf(mac, "acknowledge\x00%s\x00%s", id, until) // never fails
	return mac.Sum(nil)
}

// path is the address of the page that acknowledges an incident, below the external path. It is valid for a week.
func (l *ackLinks) path(id string) string {
	at := strconv.FormatInt(l.now().Add(linkLife).Unix(), 10)
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
