package ingest

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
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

// TokenError is one mistake in a tokens file. Line and Column count from 1; 0
// means the file as a whole.
type TokenError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *TokenError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// LoadTokens reads a tokens file: a YAML list of
//
//   - name: checkout             # for logs; unique
//     sha256: 5e88…              # of the token, in hex; or token_file: path
//     services: [checkout]       # or ["*"]; needed for send and backfill
//     allow: [send, backfill]    # of send, backfill, read, operate
//
// A token_file is read at once, relative to the tokens file, without the line
// break at its end. All mistakes are reported, joined, each a *TokenError.
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
	p := tokenParser{file: file, read: read, names: map[string]int{}, hashes: map[[sha256.Size]byte]int{}}
	p.document(data)
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return &p.tokens, nil
}

type tokenParser struct {
	file   string
	read   func(name string) ([]byte, error)
	tokens Tokens
	names  map[string]int // to the line
	hashes map[[sha256.Size]byte]int
	errs   []error
}

func (p *tokenParser) fail(n *yaml.Node, format string, args ...any) {
	e := &TokenError{File: p.file, Message: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	p.errs = append(p.errs, e)
}

func (p *tokenParser) document(data []byte) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		// The parser's own text quotes no values, only positions and kinds.
		p.fail(nil, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if len(doc.Content) == 0 {
		p.fail(nil, "no tokens: expected a list of tokens")
		return
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		p.fail(nil, "expected one YAML document")
		return
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode {
		p.fail(list, "expected a list of tokens (- name: ...)")
		return
	}
	if len(list.Content) == 0 {
		p.fail(list, "no tokens: nobody could do anything; leave tokens_file out to allow everything")
		return
	}
	for _, n := range list.Content {
		p.token(n)
	}
}

func (p *tokenParser) token(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, "expected a token with name, sha256 or token_file, services and allow")
		return
	}
	before := len(p.errs)
	t := &Token{}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] != nil {
			p.fail(key, "%q is given twice", key.Value)
			continue
		}
		seen[key.Value] = value
		switch key.Value {
		case "name":
			p.name(t, value)
		case "sha256":
			p.hash(t, value)
		case "token_file":
			p.tokenFile(t, value)
		case "services":
			p.services(t, value)
		case "allow":
			p.allow(t, value)
		case "token":
			p.fail(key, "a token is not written here in clear: give its sha256, or a token_file")
		default:
			p.fail(key, "unknown key %q: use name, sha256, token_file, services, allow", key.Value)
		}
	}
	p.complete(n, t, seen)
	if len(p.errs) == before {
		p.tokens.list = append(p.tokens.list, t)
	}
}

// complete reports what is missing or contradicts itself.
func (p *tokenParser) complete(n *yaml.Node, t *Token, seen map[string]*yaml.Node) {
	if seen["name"] == nil {
		p.fail(n, "name is missing")
	}
	if seen["allow"] == nil {
		p.fail(n, "allow is missing: list what the token may do (send, backfill, read, operate)")
	}
	switch hash, file := seen["sha256"], seen["token_file"]; {
	case hash == nil && file == nil:
		p.fail(n, "sha256 or token_file is missing")
	case hash != nil && file != nil:
		p.fail(file, "give either sha256 or token_file, not both")
	case t.hash != [sha256.Size]byte{}:
		if line, twice := p.hashes[t.hash]; twice {
			p.fail(n, "the same token is given on line %d", line)
		}
		p.hashes[t.hash] = n.Line
	}
	if t.allow&(PermitSend|PermitBackfill) != 0 && seen["services"] == nil {
		p.fail(n, `services is missing: list those that the token may send for, or ["*"]`)
	}
}

func (p *tokenParser) text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		p.fail(n, "%s must be a text", what)
		return "", false
	}
	return n.Value, true
}

func (p *tokenParser) name(t *Token, n *yaml.Node) {
	name, ok := p.text(n, "name")
	if !ok {
		return
	}
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.fail(n, "name must have 1 to 128 bytes and no control characters")
		return
	}
	if line, twice := p.names[name]; twice {
		p.fail(n, "the name %q is also used on line %d", name, line)
		return
	}
	p.names[name] = n.Line
	t.Name = name
}

// hash never quotes the value: who mixes the two up has put the token itself here.
func (p *tokenParser) hash(t *Token, n *yaml.Node) {
	const usage = "sha256 must be 64 hexadecimal digits: printf %%s \"$TOKEN\" | sha256sum"
	if n.Kind != yaml.ScalarNode {
		p.fail(n, usage)
		return
	}
	raw, err := hex.DecodeString(n.Value)
	if err != nil || len(raw) != sha256.Size {
		p.fail(n, usage)
		return
	}
	copy(t.hash[:], raw)
	if t.hash == sha256.Sum256(nil) || t.hash == sha256.Sum256([]byte("\n")) {
		p.fail(n, "sha256 is that of an empty token")
		return
	}
	if size := guessed(t.hash); size > 0 {
		p.fail(n, "sha256 is that of a token of %d characters: take a random one of at least %d", size, minTokenBytes)
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

func (p *tokenParser) tokenFile(t *Token, n *yaml.Node) {
	name, ok := p.text(n, "token_file")
	if !ok {
		return
	}
	data, err := p.read(name)
	if err != nil {
		p.fail(n, "read token file: %v", err)
		return
	}
	secret := bytes.TrimRight(data, "\r\n")
	if len(secret) < minTokenBytes {
		p.fail(n, "the token in %s is shorter than %d bytes", name, minTokenBytes)
		return
	}
	if bytes.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		p.fail(n, "the token in %s has characters that cannot be sent in a header", name)
		return
	}
	t.hash = sha256.Sum256(secret)
}

func (p *tokenParser) services(t *Token, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		p.fail(n, `services must be a list of names, or ["*"]`)
		return
	}
	all := false
	names := map[string]struct{}{}
	for _, item := range n.Content {
		name, ok := p.text(item, "a service")
		switch {
		case !ok:
		case name == "":
			p.fail(item, "a service must not be empty")
		case name == "*":
			all = true
		case strings.ContainsAny(name, "*?"):
			p.fail(item, `patterns are not supported: name the service, or use ["*"] for all`)
		default:
			names[name] = struct{}{}
		}
	}
	if all && len(n.Content) > 1 {
		p.fail(n, `"*" already means every service`)
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

func (p *tokenParser) allow(t *Token, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		p.fail(n, "allow must be a list of send, backfill, read, operate")
		return
	}
items:
	for _, item := range n.Content {
		for _, known := range permissionNames {
			if item.Kind == yaml.ScalarNode && item.Value == known.name {
				if t.allow&known.p != 0 {
					p.fail(item, "%q is given twice", item.Value)
				}
				t.allow |= known.p
				continue items
			}
		}
		p.fail(item, "unknown permission: use send, backfill, read, operate")
	}
}
