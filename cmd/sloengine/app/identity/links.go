package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/web/site"
)

// linkLife is for how long a link to acknowledge an incident is valid.
const linkLife = 7 * 24 * time.Hour

// Links signs the links that acknowledge an incident without a login. Whoever has the key can make such links, so it
// stays in the data folder. Without the file all links are void.
type Links struct {
	key []byte
	Now func() time.Time
}

// NewLinks reads the key, or makes it with the first start. The directory must be locked.
func NewLinks(f fsys.FS, dir string) (*Links, error) {
	key, err := file{
		name: engine.LinkKeyFile, what: "key", digits: 64, private: true,
		lost: "links to acknowledge incidents that were sent before are then void",
	}.readOrMake(f, dir)
	return &Links{key: []byte(key), Now: time.Now}, err
}

func (l *Links) signature(id, until string) []byte {
	mac := hmac.New(sha256.New, l.key)
	_, _ = fmt.Fprintf(mac, "acknowledge\x00%s\x00%s", id, until) // never fails
	return mac.Sum(nil)
}

// Path is the address of the page that acknowledges an incident, below the external path. It is valid for a week.
func (l *Links) Path(id string) string {
	at := strconv.FormatInt(l.Now().Add(linkLife).Unix(), 10)
	q := url.Values{"until": {at}, "signature": {hex.EncodeToString(l.signature(id, at))}}
	return site.AcknowledgePath + url.PathEscape(id) + "?" + q.Encode()
}

// Verify checks what Path made. The error does not tell how the signature is wrong.
func (l *Links) Verify(id, until, signature string) error {
	given, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(given, l.signature(id, until)) {
		return errors.New("this link is not valid; it may have been cut off")
	}
	at, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !l.Now().Before(time.Unix(at, 0)) {
		return errors.New("this link has expired")
	}
	return nil
}
