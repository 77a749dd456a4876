package redact

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sloengine/sloengine/ingest/event"
)

// Action is the way a value is redacted.
type Action string

// The actions. With a pattern they are about each match within the value, else
// about the whole of it.
const (
	// Remove takes the attribute out of the event, or the matches out of the value.
	Remove Action = "remove"
	// Mask puts Replace in its place.
	Mask Action = "mask"
	// Hash puts the first 16 bytes of its HMAC-SHA256 there, as 32 hex digits.
	Hash Action = "hash"
	// TruncateIP keeps the first 24 bits of an IPv4 address and the first 48 of an IPv6
	// address, without port and zone. A value that is not an address is masked.
	TruncateIP Action = "truncate_ip"
)

// Actions are all there are.
func Actions() []Action { return []Action{Remove, Mask, Hash, TruncateIP} }

// DefaultReplace stands in the place of a masked value.
const DefaultReplace = "***"

const (
	// MinKeyBytes is the least length of a key: a shorter one can be guessed.
	MinKeyBytes = 16
	// MaxValueBytes is the most that a value grows to. It is the default limit of
	// package event.
	MaxValueBytes = 1024

	maxReplaceBytes = 256
	maxPatternBytes = 1024
	maxRules        = 256
)

// Rule selects values and says how they are redacted. Rules apply in their order, each to the
// result of those before it.
type Rule struct {
	// Attributes are names or globs (* is any characters, ? is one); at least one.
	Attributes []string `yaml:"attributes" is:"required"`
	// Types are names or globs of event types; empty means every type.
	Types  []string `yaml:"types"`
	Action Action   `yaml:"action" is:"required" one:"remove mask hash truncate_ip"`
	// Pattern is an RE2 expression. With it only its matches within a value are
	// redacted; it must not match the empty text.
	Pattern string `yaml:"pattern"`
	// Replace is the text that Mask writes, and TruncateIP for a value that is not an address: at most
	// 256 bytes. Default "***". With a pattern, $1 or ${name} is a group of the match and $$ a dollar
	// sign.
	Replace string `yaml:"replace"`
	// Key of Hash, at least 16 bytes. With the key, a value can be found by trial.
	Key []byte
}

// Check returns all problems of the rule. Each error is a *FieldError.
func (r *Rule) Check() []error {
	_, errs := r.compile()
	return errs
}

// FieldError is the problem of one field of a rule.
type FieldError struct {
	Field string // attributes, types, action, pattern, replace or key
	Index int    // in attributes or types, else -1
	Err   error
}

func (e *FieldError) Error() string {
	if e.Index >= 0 {
		return fmt.Sprintf("%s[%d]: %v", e.Field, e.Index, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Field, e.Err)
}

// Unwrap gives the error without its place.
func (e *FieldError) Unwrap() error { return e.Err }

// compiled is a rule that was checked.
type compiled struct {
	index      int // among the rules
	attributes []string
	types      []string
	action     Action
	kind       int // the place of action in Actions
	pattern    *regexp.Regexp
	replace    []byte
	expand     bool // replace refers to groups
	key        []byte
}

func (r *Rule) compile() (*compiled, []error) {
	var errs []error
	bad := func(field string, index int, format string, args ...any) {
		errs = append(errs, &FieldError{field, index, fmt.Errorf(format, args...)})
	}
	c := &compiled{attributes: slices.Clone(r.Attributes), types: slices.Clone(r.Types), action: r.Action,
		kind: slices.Index(Actions(), r.Action), replace: []byte(r.Replace), key: slices.Clone(r.Key)}
	if len(r.Attributes) == 0 {
		bad("attributes", -1, "name at least one, or \"*\" for all")
	}
	for i, name := range r.Attributes {
		if err := checkAttribute(name); err != nil {
			bad("attributes", i, "%w", err)
		}
	}
	for i, name := range r.Types {
		if !isGlob(name) && !event.ValidName(name) || isGlob(name) && !validGlob(name) {
			bad("types", i, "%q is not a valid event type", name)
		}
	}
	if c.kind < 0 {
		bad("action", -1, "unknown action %q (want remove, mask, hash or truncate_ip)", string(r.Action))
	}
	if err := c.compilePattern(r.Pattern); err != nil {
		bad("pattern", -1, "%w", err)
	}
	if err := c.checkReplace(r.Replace); err != nil {
		bad("replace", -1, "%w", err)
	}
	switch {
	case r.Action == Hash && len(r.Key) < MinKeyBytes:
		bad("key", -1, "the hash key has %d bytes, but needs at least %d", len(r.Key), MinKeyBytes)
	case r.Action != Hash && len(r.Key) > 0:
		bad("key", -1, "a key is only valid for the action hash")
	}
	return c, errs
}

func checkAttribute(name string) error {
	switch {
	case name == "id" || name == "service":
		return fmt.Errorf("%q identifies the event and cannot be redacted (keep personal data out of it at the sender)", name)
	case isGlob(name) && !validGlob(name), !isGlob(name) && !event.ValidAttributeName(name):
		return fmt.Errorf("%q is not a valid attribute name", name)
	}
	return nil
}

func (c *compiled) compilePattern(text string) error {
	if text == "" {
		return nil
	}
	if len(text) > maxPatternBytes {
		return fmt.Errorf("longer than %d bytes", maxPatternBytes)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	if re.MatchString("") {
		return errors.New("it matches the empty string, so it would match everywhere")
	}
	c.pattern = re
	return nil
}

func (c *compiled) checkReplace(text string) error {
	if text == "" {
		c.replace = []byte(DefaultReplace)
		return nil
	}
	switch {
	case c.action != Mask && c.action != TruncateIP:
		return errors.New("only valid for the actions mask and truncate_ip")
	case len(text) > maxReplaceBytes:
		return fmt.Errorf("longer than %d bytes", maxReplaceBytes)
	case !utf8.ValidString(text):
		return errors.New("not valid UTF-8")
	}
	if c.pattern == nil {
		return nil
	}
	c.expand = strings.Contains(text, "$")
	for _, name := range references(text) {
		if !hasGroup(c.pattern, name) {
			return fmt.Errorf("the pattern has no group %q (write $$ for a literal dollar sign)", name)
		}
	}
	return nil
}

var reference = regexp.MustCompile(`\$(?:\$|\{(\w+)\}|(\w+))`)

// references are the groups that a template of regexp.Expand names.
func references(template string) (names []string) {
	for _, m := range reference.FindAllStringSubmatch(template, -1) {
		if name := m[1] + m[2]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func hasGroup(re *regexp.Regexp, name string) bool {
	n := 0
	for _, d := range name {
		if d < '0' || d > '9' || n > 1000 {
			return re.SubexpIndex(name) >= 0
		}
		n = 10*n + int(d-'0')
	}
	return n <= re.NumSubexp()
}
