package sink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/sloengine/sloengine/reliability/remote"
)

// Format of the body.
type Format string

// The formats.
const (
	JSON   Format = "json"   // one array
	NDJSON Format = "ndjson" // one event per line
)

// HTTPOptions of a Sink.
type HTTPOptions struct {
	// URL takes the requests: http or https, without user, password or fragment.
	URL string `yaml:"url" is:"required"`
	// Method is POST (the default), PUT or PATCH.
	Method string `yaml:"method" one:"POST PUT PATCH"`
	Format Format `yaml:"format" one:"json ndjson"` // default JSON
	Gzip   bool   `yaml:"gzip"`                     // compress the body
	// Headers are sent along. Those that the sink sets itself are refused.
	Headers map[string]string `yaml:"headers"`
	// HeaderFiles are headers whose values are secrets: each is the content of a file,
	// without the white space around it. The files are looked at again every 10 s.
	HeaderFiles map[string]string `yaml:"header_files" is:"file"`
	// SecretFile holds the key of the signature, at least 16 bytes; "" is none. It is reread every 10
	// s.
	SecretFile string `yaml:"secret_file" is:"file"`
	// HealthURL is asked with GET whether the receiver is well: any 2xx answer. ""
	// only connects to the host of URL.
	HealthURL string      `yaml:"health_url"`
	TLS       *tls.Config // nil: the system's roots
	// MaxConns is how many connections there are at most. Default 8.
	MaxConns int `yaml:"max_conns" min:"1" max:"1000"`
	// Answered, if not nil, is called with the status of every answer to a batch.
	Answered func(status int)
	// UserAgent defaults to "sloengine".
	UserAgent string
}

// minSecret is the least length of a key for signatures, in bytes.
const minSecret = 16

var ownHeaders = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "Connection",
	"User-Agent", "Date", "Te", "Trailer", "Upgrade", "X-Request-Deadline", remote.SignatureHeader,
}

func (o *HTTPOptions) applyDefaults() {
	if o.Method == "" {
		o.Method = http.MethodPost
	}
	if o.Format == "" {
		o.Format = JSON
	}
	if o.MaxConns == 0 {
		o.MaxConns = 8
	}
	if o.UserAgent == "" {
		o.UserAgent = "sloengine"
	}
}

func (o *HTTPOptions) validate() error {
	errs := []error{checkURL("url", o.URL)}
	if o.HealthURL != "" {
		errs = append(errs, checkURL("health url", o.HealthURL))
	}
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, o.Method) {
		errs = append(errs, fmt.Errorf("invalid method %q (want POST, PUT or PATCH)", o.Method))
	}
	if o.Format != JSON && o.Format != NDJSON {
		errs = append(errs, fmt.Errorf("invalid format %q (want json or ndjson)", o.Format))
	}
	if o.MaxConns < 1 || o.MaxConns > 1000 {
		errs = append(errs, fmt.Errorf("invalid max connections %d (1 to 1000)", o.MaxConns))
	}
	if !httpguts.ValidHeaderFieldValue(o.UserAgent) {
		errs = append(errs, errors.New("invalid user agent: not a valid header value"))
	}
	seen := map[string]bool{}
	for name, value := range o.Headers {
		errs = append(errs, checkHeader(seen, name))
		if !httpguts.ValidHeaderFieldValue(value) {
			errs = append(errs, fmt.Errorf("header %q: the value has characters that are invalid in a header", name))
		}
	}
	for name, file := range o.HeaderFiles {
		errs = append(errs, checkHeader(seen, name))
		if file == "" {
			errs = append(errs, fmt.Errorf("header %q: no file given", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("http sink: %w", err)
	}
	return nil
}

func checkURL(what, raw string) error {
	if err := remote.CheckURL(raw, "header_files"); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func checkHeader(seen map[string]bool, name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("invalid header name %q", name)
	}
	key := textproto.CanonicalMIMEHeaderKey(name)
	if slices.Contains(ownHeaders, key) {
		return fmt.Errorf("header %q is set by the sink itself", name)
	}
	if seen[key] {
		return fmt.Errorf("duplicate header %q", name)
	}
	seen[key] = true
	return nil
}

func checkSignatureKey(raw []byte) error {
	if len(raw) < minSecret {
		return fmt.Errorf("key of %d bytes is too short (at least %d)", len(raw), minSecret)
	}
	return nil
}
