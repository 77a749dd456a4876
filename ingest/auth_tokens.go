package ingest

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Permission is one thing that a token may do.
type Permission uint8

// The permissions. They do not imply each other.
const (
	PermitSend     Permission = 1 << iota // post events of the token's services
	PermitBackfill                        // post events of any age
	PermitRead                            // status page, read API, metrics; of the token's services, if it is for some
	PermitOperate                         // reload, profiles, dead letters; of all services
	PermitAnnotate                        // add annotations of the token's services
)

var permissionNames = []struct {
	name string
	p    Permission
}{{"send", PermitSend}, {"backfill", PermitBackfill}, {"read", PermitRead}, {"operate", PermitOperate},
	{"annotate", PermitAnnotate}}

// permissionList names all of them in messages.
const permissionList = "send, backfill, read, operate, annotate"

// String gives the name used in the tokens file.
func (p Permission) String() string {
	for _, n := range permissionNames {
		if n.p == p {
			return n.name
		}
	}
	return "unknown"
}

// minTokenBytes keeps out tokens that can be guessed. The length of one whose hash alone is
// known shows when it is sent.
const minTokenBytes = 16

// maxTokenFile bounds a file that holds one token.
const maxTokenFile = 64 << 10

// maxKeys bounds the secrets of one token: an old one, a new one, and some room for a slow
// rotation. Every request is compared with all.
const maxKeys = 4

// Token is one bearer token of a tokens file.
type Token struct {
	Name     string
	allow    Permission
	services map[string]struct{} // nil: every service
	check    func(service []byte) bool
}

// May reports whether the token has the permission.
func (t *Token) May(p Permission) bool { return t.allow&p != 0 }

// Limited reports whether the token is for some services only: it sends and reads no others.
func (t *Token) Limited() bool { return t.services != nil }

// Serves reports whether the token is for a service; "" stands for all services.
func (t *Token) Serves(service string) bool {
	if t.services == nil {
		return true
	}
	_, ok := t.services[service]
	return ok
}

// Services are the services of a limited token, sorted; nil: all.
func (t *Token) Services() []string {
	if t.services == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.services))
}

// serviceCheck is nil if the token may send for every service.
func (t *Token) serviceCheck() func(service []byte) bool { return t.check }

// key is one secret of a token, of which only the hash is kept. A token has two while it is
// rotated.
type key struct {
	*Token
	hash    [sha256.Size]byte
	expires time.Time // zero: never
	use     *keyUse   // set when the tokens come into force
}

// id names the key to people: the first digits of the hash, as sha256sum prints them. They
// say nothing about a random token.
func (k *key) id() string { return hex.EncodeToString(k.hash[:4]) }

// expired reports whether the key is no longer valid.
func (k *key) expired(now time.Time) bool { return !k.expires.IsZero() && !now.Before(k.expires) }

// Tokens is the content of a tokens file.
type Tokens struct {
	list []*Token
	keys []*key
}

// Len is the number of tokens.
func (t *Tokens) Len() int { return len(t.list) }

// Names are those of the tokens.
func (t *Tokens) Names() (names []string) {
	for _, one := range t.list {
		names = append(names, one.Name)
	}
	return names
}

// find compares with every key in constant time, so that the duration does not reveal how close a
// guess was. The key may have expired.
func (t *Tokens) find(secret string) *key {
	if len(secret) < minTokenBytes {
		return nil
	}
	var found *key
	hash := sha256.Sum256([]byte(secret))
	for _, k := range t.keys {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			found = k
		}
	}
	return found
}

// LoadTokens reads a tokens file: a YAML list of
//
//   - name: checkout             # for logs; unique
//     sha256: 5e88…              # of the token, in hex; or token_file: path
//     expires: 2027-01-31T00:00:00Z   # from then on it is refused; never without
//     services: [checkout]       # or ["*"]; needed for send, backfill and annotate. It limits read, too
//     allow: [send, backfill]    # of send, backfill, read, operate, annotate
//
// Instead of sha256 or token_file, keys lists up to four of them, each with its own expires: all
// are valid, so that a token can be rotated without a gap. A token_file is read at once, relative to the tokens file,
// without the line break at its end. All mistakes are reported, joined, each a *yamldoc.Error.
func LoadTokens(path string) (*Tokens, error) {
	data, err := fsys.ReadFile(path, yamldoc.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read tokens file: %w", err)
	}
	return ParseTokens(path, data, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return fsys.ReadFile(name, maxTokenFile)
	})
}

// ParseTokens is LoadTokens on bytes; read opens the token files.
func ParseTokens(file string, data []byte, read func(name string) ([]byte, error)) (*Tokens, error) {
	r := yamldoc.Reader{Options: yamldoc.Options{
		Secret:    true, // a token in the wrong place must not get into a log
		Misplaced: map[string]string{"token.token": "do not store the token in plain text: use sha256 or token_file"},
	}}
	p := tokenParser{read: read, names: map[string]int{}, hashes: map[[sha256.Size]byte]int{}}
	if list := r.Document(file, data); list != nil {
		p.document(list)
	} else if r.Errors() == 0 {
		r.Errorf(yamldoc.Position{File: file}, "write the file as a list of tokens", "the tokens file is empty")
	}
	if err := r.Problems().Err(); err != nil {
		return nil, err
	}
	return &p.tokens, nil
}

type tokenParser struct {
	read   func(name string) ([]byte, error)
	tokens Tokens
	names  map[string]int // to the line
	hashes map[[sha256.Size]byte]int
}

func (p *tokenParser) document(list *yamldoc.Value) {
	list.What = "tokens file"
	items, ok := list.List()
	if ok && len(items) == 0 {
		list.Errorf("to allow every request, remove tokens_file", "the list has no tokens, so every request would be refused")
	}
	for _, v := range items {
		v.What = "token"
		before := v.Errors()
		if t := p.token(v); v.Errors() == before {
			p.tokens.list = append(p.tokens.list, t)
		}
	}
}

func (p *tokenParser) token(v *yamldoc.Value) *Token {
	o := v.Object("name", "sha256", "token_file", "expires", "keys", "services", "allow")
	if o == nil {
		return nil
	}
	t := &Token{}
	if n := o.Need("name", "add a name, which logs show"); n != nil {
		p.name(t, n)
	}
	if o.Has("keys") {
		p.keys(t, o)
	} else {
		p.key(t, v, o)
	}
	if s := o.Get("services"); s != nil {
		t.readServices(s)
	}
	if a := o.Need("allow", "list its permissions: "+permissionList); a != nil {
		t.readPermissions(a)
	}
	if t.allow&(PermitSend|PermitBackfill|PermitAnnotate) != 0 && !o.Has("services") {
		v.Errorf(`list the services that the token may send events for or annotate, or use ["*"]`, "services is missing")
	}
	if s := o.Get("services"); s != nil && t.May(PermitOperate) && t.Limited() {
		s.Errorf(`use ["*"], or split it into a token with operate and one with the rest`,
			"a token with operate cannot be limited to services, because it reloads, discards and erases for all of them")
	}
	return t
}

// keys reads the list of the secrets of one token.
func (p *tokenParser) keys(t *Token, o *yamldoc.Object) {
	for _, other := range []string{"sha256", "token_file", "expires"} {
		if o.Has(other) {
			o.KeyErrorf(other, "move it into keys", "give either keys or %s, not both", other)
		}
	}
	list := o.Get("keys")
	items, ok := list.List()
	if ok && (len(items) == 0 || len(items) > maxKeys) {
		list.Errorf("", "keys must list 1 to %d keys", maxKeys)
	}
	for _, v := range items {
		v.What = "key"
		if o := v.Object("sha256", "token_file", "expires"); o != nil {
			p.key(t, v, o)
		}
	}
}

// key reads one secret of a token, and until when it is valid.
func (p *tokenParser) key(t *Token, v *yamldoc.Value, o *yamldoc.Object) {
	k := &key{Token: t}
	if h := o.Get("sha256"); h != nil {
		k.readHash(h)
	}
	if f := o.Get("token_file"); f != nil {
		p.tokenFile(k, f)
	}
	if e := o.Get("expires"); e != nil {
		// One in the past is fine: who sends the key then learns that it has expired.
		k.expires, _ = e.Instant()
	}
	switch hash, file := o.Has("sha256"), o.Has("token_file"); {
	case !hash && !file:
		v.Errorf("", "sha256 or token_file is missing")
	case hash && file:
		o.KeyErrorf("token_file", "", "give either sha256 or token_file, not both")
	case k.hash != [sha256.Size]byte{}:
		if line, twice := p.hashes[k.hash]; twice {
			v.Errorf("", "duplicate token, first defined on line %d", line)
		}
		p.hashes[k.hash] = v.At().Line
		p.tokens.keys = append(p.tokens.keys, k)
	}
}

func (p *tokenParser) name(t *Token, v *yamldoc.Value) {
	name, ok := v.String()
	if !ok {
		return
	}
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.Errorf("", "name must have 1 to 128 bytes and no control characters")
		return
	}
	if line, twice := p.names[name]; twice {
		v.Errorf("", "duplicate name %q, first used on line %d", name, line)
		return
	}
	p.names[name] = v.At().Line
	t.Name = name
}

// readHash never quotes the value: who mixes the two up has put the token itself here.
func (k *key) readHash(v *yamldoc.Value) {
	raw, err := hex.DecodeString(v.Raw())
	if err != nil || len(raw) != sha256.Size {
		v.Errorf("printf %s \"$TOKEN\" | sha256sum", "sha256 must be 64 hexadecimal digits")
		return
	}
	copy(k.hash[:], raw)
	if k.hash == sha256.Sum256(nil) || k.hash == sha256.Sum256([]byte("\n")) {
		v.Errorf("", "sha256 is the hash of an empty token")
		return
	}
	if size := guessed(k.hash); size > 0 {
		v.Errorf(fmt.Sprintf("use a random token of at least %d bytes", minTokenBytes),
			"sha256 is the hash of a token of only %d characters", size)
	}
}

// guessed finds out that a hash is of one or two characters, and says of how many. Longer
// ones are refused when they are sent.
func guessed(hash [sha256.Size]byte) (size int) {
	const first, last = '!', '~'
	for a := byte(first); a <= last; a++ {
		if sha256.Sum256([]byte{a}) == hash {
			return 1
		}
		for b := byte(first); b <= last; b++ {
			if sha256.Sum256([]byte{a, b}) == hash {
				return 2
			}
		}
	}
	return 0
}

func (p *tokenParser) tokenFile(k *key, v *yamldoc.Value) {
	name, ok := v.String()
	if !ok {
		return
	}
	data, err := p.read(name)
	if err != nil {
		v.Errorf("", "read token file: %v", err)
		return
	}
	secret := bytes.TrimRight(data, "\r\n")
	if len(secret) < minTokenBytes {
		v.Errorf("", "the token in %s is shorter than %d bytes", name, minTokenBytes)
		return
	}
	if bytes.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		v.Errorf("", "the token in %s has characters that are invalid in an HTTP header", name)
		return
	}
	k.hash = sha256.Sum256(secret)
}

func (t *Token) readServices(v *yamldoc.Value) {
	items, ok := v.List()
	if !ok {
		return
	}
	if len(items) == 0 {
		v.Errorf("", `services must be a list of names, or ["*"]`)
	}
	all := false
	names := map[string]struct{}{}
	for _, i := range items {
		name, ok := i.String()
		switch {
		case !ok:
		case name == "":
			i.Errorf("", "a service must not be empty")
		case name == "*":
			all = true
		case strings.ContainsAny(name, "*?"):
			i.Errorf(`name the service, or use ["*"] for all`, "patterns are not supported")
		default:
			names[name] = struct{}{}
		}
	}
	if all && len(items) > 1 {
		v.Errorf("", `"*" already means every service`)
	}
	if all {
		return
	}
	t.services = names
	t.check = func(service []byte) bool {
		_, ok := names[string(service)]
		return ok
	}
}

func (t *Token) readPermissions(v *yamldoc.Value) {
	items, ok := v.List()
	if !ok {
		return
	}
	const hint = "use " + permissionList
	if len(items) == 0 {
		v.Errorf(hint, "allow must be a list of permissions")
	}
items:
	for _, i := range items {
		for _, known := range permissionNames {
			if i.IsScalar() && i.Raw() == known.name {
				if t.allow&known.p != 0 {
					i.Errorf("", "duplicate permission %q", known.name)
				}
				t.allow |= known.p
				continue items
			}
		}
		i.Errorf(hint, "unknown permission")
	}
}
