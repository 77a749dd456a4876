package alertmanager

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo"
)

// FileVersion is the version key of a file of receivers.
const FileVersion = "sloengine/receivers/v1"

// Problem is one error in a file of receivers. Line and Column count from 1.
type Problem struct {
	File         string
	Line, Column int
	Message      string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Problems are all errors of a file, in the order of their places.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// ReadReceivers reads a file of receivers strictly: unknown and repeated keys, a
// second document and whatever Validate refuses are errors, all of which are
// returned at once as Problems. The name of the file is for messages only.
func ReadReceivers(name string, data []byte) (*Receivers, error) {
	r := reader{file: name, at: map[string]*yaml.Node{}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, Problems{syntax(name, err)}
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, Problems{syntax(name, err)}
		}
		r.bad(&more, "only one document is wanted")
	}
	out := r.root(doc.Content[0])
	if len(r.problems) == 0 {
		r.validate(out)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return nil, r.problems
	}
	return out, nil
}

// syntax turns an error of the YAML library, which knows lines only, into a problem.
func syntax(name string, err error) Problem {
	if errors.Is(err, io.EOF) {
		return Problem{name, 1, 1, "the file is empty"}
	}
	line := 1
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if n, e := fmt.Sscanf(msg, "line %d: ", &line); e == nil && n == 1 {
		_, msg, _ = strings.Cut(msg, ": ")
	}
	return Problem{name, max(1, line), 1, msg}
}

type reader struct {
	file     string
	at       map[string]*yaml.Node // by path of the field
	problems Problems
}

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, max(1, n.Line), max(1, n.Column), fmt.Sprintf(format, args...)})
}

// validate puts the errors of Validate where their fields are written, or the
// closest thing around them.
func (r *reader) validate(out *Receivers) {
	joined, ok := out.Validate().(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range joined.Unwrap() {
		var f *FieldError
		if !errors.As(err, &f) {
			continue
		}
		path, n := f.Path, r.at[""]
		for path != "" {
			if have, ok := r.at[path]; ok {
				n = have
				break
			}
			path = path[:max(0, strings.LastIndexAny(path, ".["))]
		}
		r.bad(n, "%s", f.Error())
	}
}

// fields says how each key of a mapping is read.
type fields map[string]func(path string, n *yaml.Node)

// mapping reads a mapping with the given keys only.
func (r *reader) mapping(path string, n *yaml.Node, known fields) {
	r.each(path, n, func(key, path string, k, v *yaml.Node) {
		read, ok := known[key]
		if !ok {
			r.bad(k, "unknown key %q; want one of %s", key, strings.Join(sortedNames(known), ", "))
			return
		}
		read(path, v)
	})
}

func sortedNames(f fields) []string {
	var out []string
	for k := range f {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// each calls f for every entry of a mapping and refuses repeated keys.
func (r *reader) each(path string, n *yaml.Node, f func(key, path string, k, v *yaml.Node)) {
	n = follow(n)
	r.at[path] = n
	if n.Kind != yaml.MappingNode {
		r.bad(n, "%swant a mapping", prefix(path))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], follow(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.bad(k, "a key must be text")
			continue
		}
		if seen[k.Value] {
			r.bad(k, "key %q is there twice", k.Value)
			continue
		}
		seen[k.Value] = true
		p := k.Value
		if path != "" {
			p = path + "." + k.Value
		}
		r.at[p] = v
		f(k.Value, p, k, v)
	}
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// text reads a string into dst. A number or a truth value is none: whoever wrote
// one meant something else.
func (r *reader) text(dst *string) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
			r.bad(n, "%s: want text", path)
			return
		}
		*dst = n.Value
	}
}

func (r *reader) flag(set func(bool)) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		var b bool
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&b) != nil {
			r.bad(n, "%s: want true or false", path)
			return
		}
		set(b)
	}
}

func (r *reader) duration(set func(time.Duration)) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.bad(n, "%s: want a duration such as 15m", path)
			return
		}
		d, err := slo.ParseDuration(n.Value)
		if err != nil {
			r.bad(n, "%s: %v", path, err)
			return
		}
		set(d)
	}
}

// list reads one thing or a list of them.
func (r *reader) list(path string, n *yaml.Node, item func(path string, n *yaml.Node)) {
	r.at[path] = n
	if n.Kind != yaml.SequenceNode {
		item(path+"[0]", n)
		return
	}
	for i, c := range n.Content {
		item(fmt.Sprintf("%s[%d]", path, i), follow(c))
	}
}

func (r *reader) root(n *yaml.Node) *Receivers {
	out := &Receivers{}
	version := ""
	r.mapping("", n, fields{
		"version":   r.text(&version),
		"default":   r.text(&out.Default),
		"routes":    func(p string, n *yaml.Node) { out.Routes = r.classes(p, n) },
		"services":  func(p string, n *yaml.Node) { out.Services = r.services(p, n) },
		"timing":    func(p string, n *yaml.Node) { out.Timing = r.timings(p, n) },
		"smtp":      func(p string, n *yaml.Node) { out.SMTP = r.smtp(p, n) },
		"receivers": func(p string, n *yaml.Node) { out.Receivers = r.receivers(p, n) },
	})
	if version != FileVersion && follow(n).Kind == yaml.MappingNode {
		at := follow(n)
		if v, ok := r.at["version"]; ok {
			at = v
		}
		r.bad(at, "version: want %s", FileVersion)
	}
	return out
}

func (r *reader) classes(path string, n *yaml.Node) map[Class]string {
	out := map[Class]string{}
	r.each(path, n, func(key, path string, _, v *yaml.Node) {
		var name string
		r.text(&name)(path, v)
		out[Class(key)] = name
	})
	return out
}

func (r *reader) services(path string, n *yaml.Node) map[string]map[Class]string {
	out := map[string]map[Class]string{}
	r.each(path, n, func(key, path string, _, v *yaml.Node) { out[key] = r.classes(path, v) })
	return out
}

func (r *reader) timings(path string, n *yaml.Node) map[Class]Timing {
	out := map[Class]Timing{}
	r.each(path, n, func(key, path string, _, v *yaml.Node) {
		var t Timing
		r.mapping(path, v, fields{
			"group_wait":      r.duration(func(d time.Duration) { t.GroupWait = &d }),
			"group_interval":  r.duration(func(d time.Duration) { t.GroupInterval = d }),
			"repeat_interval": r.duration(func(d time.Duration) { t.RepeatInterval = d }),
		})
		out[Class(key)] = t
	})
	return out
}

func (r *reader) smtp(path string, n *yaml.Node) *SMTP {
	s := &SMTP{}
	r.mapping(path, n, fields{
		"smarthost":     r.text(&s.Smarthost),
		"from":          r.text(&s.From),
		"username":      r.text(&s.Username),
		"password_file": r.text(&s.PasswordFile),
		"tls":           r.flag(func(b bool) { s.PlainText = !b }),
	})
	return s
}

func (r *reader) receivers(path string, n *yaml.Node) []Receiver {
	var out []Receiver
	if n.Kind != yaml.SequenceNode {
		r.bad(n, "%s: want a list", path)
		return nil
	}
	r.list(path, n, func(path string, n *yaml.Node) {
		var x Receiver
		r.mapping(path, n, fields{
			"name": r.text(&x.Name),
			"slack": func(p string, n *yaml.Node) {
				r.list(p, n, func(p string, n *yaml.Node) {
					var s Slack
					r.mapping(p, n, fields{"api_url_file": r.text(&s.APIURLFile), "channel": r.text(&s.Channel)})
					x.Slack = append(x.Slack, s)
				})
			},
			"pagerduty": func(p string, n *yaml.Node) {
				r.list(p, n, func(p string, n *yaml.Node) {
					var d PagerDuty
					r.mapping(p, n, fields{"routing_key_file": r.text(&d.RoutingKeyFile), "service_key_file": r.text(&d.ServiceKeyFile), "severity": r.text(&d.Severity)})
					x.PagerDuty = append(x.PagerDuty, d)
				})
			},
			"webhook": func(p string, n *yaml.Node) {
				r.list(p, n, func(p string, n *yaml.Node) {
					var w Webhook
					r.mapping(p, n, fields{
						"url": r.text(&w.URL), "credentials_file": r.text(&w.CredentialsFile),
						"username": r.text(&w.Username), "password_file": r.text(&w.PasswordFile),
					})
					x.Webhook = append(x.Webhook, w)
				})
			},
			"email": func(p string, n *yaml.Node) {
				r.list(p, n, func(p string, n *yaml.Node) {
					var e Email
					r.mapping(p, n, fields{"to": r.text(&e.To)})
					x.Email = append(x.Email, e)
				})
			},
		})
		out = append(out, x)
	})
	return out
}
