package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader carries the signature of a request.
const SignatureHeader = "X-Sloengine-Signature"

// Sign returns the value of the header for a body as it goes over the wire.
func Sign(secret, body []byte, now time.Time) string {
	t := strconv.FormatInt(now.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(digest(secret, t, body))
}

func digest(secret []byte, t string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, t)
	_, _ = h.Write([]byte{'.'})
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// Verify checks a signature that Sign made, and that it is at most maxAge away from now.
func Verify(secret, body []byte, header string, now time.Time, maxAge time.Duration) error {
	stamp, sum, ok := strings.Cut(header, ",v1=")
	t, found := strings.CutPrefix(stamp, "t=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	given, herr := hex.DecodeString(sum)
	if !ok || !found || err != nil || herr != nil {
		return errors.New("malformed signature")
	}
	if !hmac.Equal(given, digest(secret, t, body)) {
		return errors.New("the signature does not match")
	}
	if age := now.Sub(time.Unix(seconds, 0)).Abs(); age > maxAge {
		return fmt.Errorf("the signature is %s old", age)
	}
	return nil
}
