package ingest

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Permission is one thing that a token may do.
type Permission uint8

// The permissions. None implies another.
const (
	PermitSend     Permission = 1 << iota // post events of the token's services
	PermitBackfill                        // post events of any age
	PermitRead                            // status page, read API, metrics
	PermitOperate                         // reload, profiles, dead letters
)

var permissionNames = []struct {
	name string
	p    Permission
}{{"send", PermitSend}, {"backfill", PermitBackfill}, {"read", PermitRead}, {"operate", PermitOperate}}

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

// Token is what a tokens file says about one bearer token. The token itself is
// not kept.
type Token struct {
	Name     string
	hash     [sha256.Size]byte
	allow    Permission
	services map[string]struct{} // nil: every service
	check    func(service []byte) bool
}

// May reports whether the token has the permission.
func (t *Token) May(p Permission) bool { return t.allow&p != 0 }

// serviceCheck is nil if the token may send for every service.
func (t *Token) serviceCheck() func(service []byte) bool { return t.check }

// Tokens is the immutable content of a tokens file.
type Tokens struct{ list []*Token }

// Len is the number of tokens.
func (t *Tokens) Len() int { return len(t.list) }

// find compares with every token in constant time, so that how long it takes
// tells nothing about how close a guess was.
func (t *Tokens) find(secret string) *Token {
	if len(secret) < minTokenBytes {
		return nil
	}
	var found *Token
	hash := sha256.Sum256([]byte(secret))
	for _, token := range t.list {
		if subtle.ConstantTimeCompare(hash[:], token.hash[:]) == 1 {
			found = token
		}
	}
	return found
}

// LoadTokens reads a tokens file: a YAML list of
//
//   - name: checkout             # for logs; unique
//     sha256: 5e88…              # of the token, in hex; or token_file: path
//     services: [checkout]       # or ["*"]; needed for send and backfill
//     allow: [send, backfill]    # of send, backfill, read, operate
//
// A token_file is read at once, relative to the tokens file, without the line
// break at its end. All mistakes are reported, joined, each a *yamldoc.Error.
func LoadTokens(path string) (*Tokens, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read tokens file: %w", err)
	}
	return ParseTokens(path, data, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return os.ReadFile(name)
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
	o := v.Object("name", "sha256", "token_file", "services", "allow")
	if o == nil {
		return nil
	}
	t := &Token{}
	if n := o.Need("name", "add a name, which logs show"); n != nil {
		p.name(t, n)
	}
	if h := o.Get("sha256"); h != nil {
		t.readHash(h)
	}
	if f := o.Get("token_file"); f != nil {
		p.tokenFile(t, f)
	}
	if s := o.Get("services"); s != nil {
		t.readServices(s)
	}
	if a := o.Need("allow", "list its permissions: send, backfill, read, operate"); a != nil {
		t.readPermissions(a)
	}
	switch hash, file := o.Has("sha256"), o.Has("token_file"); {
	case !hash && !file:
		v.Errorf("", "sha256 or token_file is missing")
	case hash && file:
		o.KeyErrorf("token_file", "", "give either sha256 or token_file, not both")
	case t.hash != [sha256.Size]byte{}:
		if line, twice := p.hashes[t.hash]; twice {
			v.Errorf("", "duplicate token, first defined on line %d", line)
		}
		p.hashes[t.hash] = v.At().Line
	}
	if t.allow&(PermitSend|PermitBackfill) != 0 && !o.Has("services") {
		v.Errorf(`list the services that the token may send events for, or use ["*"]`, "services is missing")
	}
	return t
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
func (t *Token) readHash(v *yamldoc.Value) {
	raw, err := hex.DecodeString(v.Raw())
	if err != nil || len(raw) != sha256.Size {
		v.Errorf("printf %s \"$TOKEN\" | sha256sum", "sha256 must be 64 hexadecimal digits")
		return
	}
	copy(t.hash[:], raw)
	if t.hash == sha256.Sum256(nil) || t.hash == sha256.Sum256([]byte("\n")) {
		v.Errorf("", "sha256 is the hash of an empty token")
		return
	}
	if size := guessed(t.hash); size > 0 {
		v.Errorf(fmt.Sprintf("use a random token of at least %d bytes", minTokenBytes), "sha256 is the hash of a token of only %d characters", size)
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

func (p *tokenParser) tokenFile(t *Token, v *yamldoc.Value) {
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
	t.hash = sha256.Sum256(secret)
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
	const hint = "use send, backfill, read, operate"
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
