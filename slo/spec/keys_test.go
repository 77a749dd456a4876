package spec

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamldoc/shape/shapetest"
)

// These tests hold the description of the format, which makes the reference and the JSON Schema, to what is read.

// A place is a mapping of the description with what surrounds it.
type place struct {
	path string
	*shape.Shape
	base *yaml.Node                        // an example of it, or nil
	wrap func(value *yaml.Node) *yaml.Node // the document around such a value
}

// surroundings are what a key needs elsewhere in the document, as edits of its path.
var surroundings = map[string]func(doc *yaml.Node){
	"slas[].group_by": func(doc *yaml.Node) { put(items(doc, "slos")[0], "group_by", "[region]") },
	"slas[].components.NAME.bands": func(doc *yaml.Node) {
		put(items(doc, "slas")[0], "score", "bands")
		put(items(doc, "slos")[0], "indicator", "{latency: {threshold: 300ms}}")
	},
	"slos[].cost.per_minute": func(doc *yaml.Node) {
		put(items(doc, "slos")[0], "budgeting", "{timeslices: {slice: 1m, target: 95}}")
	},
	"slos[].indicator.volume.per": func(doc *yaml.Node) { put(items(doc, "slos")[0], "window", "90d") },
	"slos[].indicator.prometheus.total_query": func(doc *yaml.Node) {
		put(get(get(items(doc, "slos")[0], "indicator"), "prometheus"), "error_query",
			`'sum(rate(http_requests_total{code=~"5.."}[$window]))'`)
	},
	"baselines[].slas": func(doc *yaml.Node) {
		put(doc, "slas", "[{name: gold, components: {checkout: {weight: 1}}}]")
	},
}

func node(t testing.TB, text string) *yaml.Node {
	t.Helper()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &n), text)
	return n.Content[0]
}

func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

func get(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func set(m *yaml.Node, key string, value *yaml.Node) {
	remove(m, key)
	m.Content = append(m.Content, plainNode(key), value)
}

func put(m *yaml.Node, key, text string) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		panic(err)
	}
	set(m, key, n.Content[0])
}

func items(m *yaml.Node, key string) []*yaml.Node { return get(m, key).Content }

func remove(m *yaml.Node, key string) {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = slices.Delete(m.Content, i, i+2)
			return
		}
	}
}

// minimal is an example of a mapping in which a key may be set.
func (p *place) minimal(t testing.TB, key *shape.Key) *yaml.Node {
	t.Helper()
	m := &yaml.Node{Kind: yaml.MappingNode}
	if p.base != nil && p.base.Kind == yaml.MappingNode && !p.One {
		m = node(t, encode(t, p.base))
	}
	for i := range p.Keys {
		if k := &p.Keys[i]; k.Required && get(m, k.Name) == nil {
			set(m, k.Name, node(t, k.Example))
		}
	}
	if key == nil {
		if p.One {
			set(m, p.Keys[0].Name, node(t, p.Keys[0].Example))
		}
		return m
	}
	p.makeWay(m, key)
	for _, other := range p.Keys {
		if slices.Contains(key.Needs, other.Name) && get(m, other.Name) == nil {
			p.makeWay(m, &other)
			set(m, other.Name, node(t, other.Example))
		}
	}
	return m
}

// makeWay removes what a key excludes.
func (p *place) makeWay(m *yaml.Node, key *shape.Key) {
	for _, other := range p.Keys {
		if slices.Contains(key.Not, other.Name) || slices.Contains(other.Not, key.Name) {
			remove(m, other.Name)
		}
	}
}

func encode(t testing.TB, n *yaml.Node) string {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	require.NoError(t, e.Encode(n))
	return b.String()
}

// document is a whole spec with a value at a key of the place, or with the mapping alone.
func (p *place) document(t testing.TB, key *shape.Key, value *yaml.Node) string {
	t.Helper()
	m := p.minimal(t, key)
	at := p.path
	if key != nil {
		at = shape.Child(at, key.Name)
		if value == nil {
			remove(m, key.Name)
		} else {
			set(m, key.Name, value)
		}
	}
	doc := p.wrap(m)
	for path, edit := range surroundings {
		if at == path || strings.HasPrefix(at, path+".") || strings.HasPrefix(at, path+"[") {
			edit(doc)
		}
	}
	return encode(t, doc)
}

// places lists the mappings of the description.
func places(t testing.TB) (all []place) {
	root := Shape()
	var visit func(p place)
	var inside func(s *shape.Shape, path string, base *yaml.Node, wrap func(*yaml.Node) *yaml.Node)
	inside = func(s *shape.Shape, path string, base *yaml.Node, wrap func(*yaml.Node) *yaml.Node) {
		first := func(i int) *yaml.Node {
			if base == nil || len(base.Content) <= i {
				return nil
			}
			return base.Content[i]
		}
		switch s.Kind {
		case shape.Mapping:
			visit(place{path, s, base, wrap})
		case shape.List:
			inside(s.Of, path+"[]", first(0), func(v *yaml.Node) *yaml.Node {
				list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{v}}
				if last := path + "[]"; strings.HasSuffix(last, ".bands[]") {
					list.Content = append(list.Content, node(t, "{score: 0}")) // the step for the rest
				}
				return wrap(list)
			})
		case shape.Map:
			inside(s.Of, shape.Child(path, "NAME"), first(1), func(v *yaml.Node) *yaml.Node {
				return wrap(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plainNode("checkout"), v}})
			})
		case shape.Either:
			for i := range s.Or {
				inside(&s.Or[i], path, base, wrap)
			}
		}
	}
	visit = func(p place) {
		all = append(all, p)
		for i := range p.Keys {
			k := &p.Keys[i]
			inside(&k.Shape, shape.Child(p.path, k.Name), node(t, k.Example), func(v *yaml.Node) *yaml.Node {
				m := p.minimal(t, k)
				set(m, k.Name, v)
				return p.wrap(m)
			})
		}
	}
	visit(place{"", &root, node(t, "{slos: "+root.Keys[slices.IndexFunc(root.Keys, func(k shape.Key) bool {
		return k.Name == "slos"
	})].Example+"}"),
		func(v *yaml.Node) *yaml.Node { return v }})
	return all
}

func load(text string) (*Spec, yamldoc.Problems) {
	return Load([]File{{Name: "spec.yaml", Data: []byte(text)}})
}

// Each mapping has the keys of its reader, which names them when it meets an unknown one.
func TestKeysAreThoseOfTheReaders(t *testing.T) {
	for _, p := range places(t) {
		var want []string
		for _, k := range p.Keys {
			want = append(want, k.Name)
		}
		slices.Sort(want)
		if strings.HasSuffix(p.path, ".bands[]") {
			continue // percentiles are any number
		}
		doc := p.document(t, &shape.Key{Name: "zzzzzzzz"}, plainNode("x"))
		_, problems := load(doc)
		i := slices.IndexFunc(problems, func(p yamldoc.Problem) bool {
			return strings.Contains(p.Message, `unknown key "zzzzzzzz"`)
		})
		if i < 0 {
			t.Errorf("%s: the reader accepts an unknown key, or is not reached:\n%s\n%s", p.path, doc, problems)
			continue
		}
		known := strings.Split(strings.TrimPrefix(problems[i].Suggestion, "known keys: "), ", ")
		slices.Sort(known)
		require.Equal(t, known, want, "the keys of %q that the reader knows, and those that are described", p.path)
	}
}

// The example of each key is accepted, its default means the same as no key, and values beyond its bounds are refused.
func TestKeysTellTheTruth(t *testing.T) {
	for _, p := range places(t) {
		for i := range p.Keys {
			k := &p.Keys[i]
			at := shape.Child(p.path, k.Name)
			require.Regexp(t, `^[A-Z`+"`"+`].*\.$`, k.Text, "%s needs a text", at)
			require.NotEmpty(t, k.Example, "%s needs an example", at)
			doc := p.document(t, k, node(t, k.Example))
			_, problems := load(doc)
			require.False(t, problems.HasErrors(), "the example of %s:\n%s\n%s", at, doc, problems)

			without := p.document(t, k, nil)
			s, problems := load(without)
			if k.Required {
				require.True(t, problems.HasErrors(), "%s is described as required:\n%s", at, without)
			}
			if literal(k) {
				require.False(t, problems.HasErrors(), "without %s:\n%s\n%s", at, without, problems)
				with := p.document(t, k, node(t, k.Default))
				d, problems := load(with)
				require.False(t, problems.HasErrors(), "the default of %s:\n%s\n%s", at, with, problems)
				require.Equal(t, string(Encode(s)), string(Encode(d)), "the default of %s", at)
				d, _ = load(doc)
				require.NotEqual(t, string(Encode(s)), string(Encode(d)), "the example of %s is its default, or does nothing", at)
			}
			for _, value := range beyond(k) {
				doc := p.document(t, k, plainNode(value))
				_, problems := load(doc)
				require.True(t, problems.HasErrors(), "%s accepts %s, which is beyond its bounds:\n%s", at, value, doc)
			}
		}
	}
}

// No text, example or rule of keys.txt is for a key that is not there.
func TestKeysFileIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range places(t) {
		for _, k := range p.Keys {
			for _, text := range []string{k.Text, k.Example, k.Default, strings.Join(k.Not, " "), strings.Join(k.Needs, " ")} {
				used[text] = true
			}
		}
	}
	for path, text := range shape.ParseTexts(keysFile) {
		require.True(t, used[text], "keys.txt: no key uses %q", path)
	}
}

// literal reports whether a default is a value, and not what it is taken from.
func literal(k *shape.Key) bool {
	return k.Default != "" && !strings.Contains(k.Default, " ") && k.Default != "once" && k.Default != "always"
}

// beyond are values outside of the bounds of a key.
func beyond(k *shape.Key) (values []string) {
	alternatives := []shape.Shape{k.Shape}
	if k.Kind == shape.Either {
		alternatives = k.Or
	}
	for _, s := range alternatives {
		switch s.Kind {
		case shape.Whole, shape.Number:
			if x, err := strconv.ParseFloat(s.Min, 64); err == nil {
				if !s.Above {
					x--
				}
				values = append(values, strconv.FormatFloat(x, 'f', -1, 64))
			}
			if x, err := strconv.ParseFloat(s.Max, 64); err == nil {
				if !s.Below {
					x++
				}
				values = append(values, strconv.FormatFloat(x, 'f', -1, 64))
			}
		case shape.Duration:
			if s.Max != "" {
				values = append(values, s.Max+"1s")
			}
			if s.Min != "" && s.Min != "0" {
				values = append(
					values, map[string]string{"1ms": "0s", "1s": "999ms", "10s": "9s", "1m": "59s", "5m": "4m59s", "1h": "59m"}[s.Min])
			}
		case shape.Text:
			if len(s.Words) > 0 && len(alternatives) == 1 {
				values = append(values, "zzzzzzzz")
			}
		}
	}
	return values
}

// The schema accepts all that the readers accept, and refuses unknown keys and values of another kind.
func TestSchemaOfSpecs(t *testing.T) {
	root := Shape()
	refused := shapetest.Compile(t, root)
	own := 0
	files, err := filepath.Glob(specs + "*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		data := readText(t, file)
		if !strings.Contains(data, "\nversion: sloengine/v1") && !strings.HasPrefix(data, "version: sloengine/v1") {
			continue
		}
		own++
		for doc := range strings.SplitSeq(data, "\n---\n") {
			require.NoError(t, refused(doc), file)
		}
	}
	require.Greater(t, own, 3)
	require.NoError(t, refused(string(Starter("shop"))))
	require.Error(t, refused(readText(t, "../../testdata/mistakes/broken.yaml")))

	probes := []string{"1", "0", "-1", "99.9", "true", "text", `"7"`, "5m", "0s", "[]", "{}", "[a]", "{zzzz: 1}",
		"[{zzzz: 1}]", "2026-11-22T01:00:00Z", "any", "''", "null", "1e3", "64KiB"}
	n := 0
	for _, p := range places(t) {
		require.NoError(t, refused(p.document(t, nil, nil)), p.path)
		require.Error(t, refused(p.document(t, &shape.Key{Name: "zzzzzzzz"}, plainNode("x"))), p.path)
		for i := range p.Keys {
			k := &p.Keys[i]
			at := shape.Child(p.path, k.Name)
			require.NoError(t, refused(p.document(t, k, node(t, k.Example))), at)
			if k.Required {
				require.Error(t, refused(p.document(t, k, nil)), "without %s", at)
			}
			for _, probe := range probes {
				doc := p.document(t, k, node(t, probe))
				_, problems := load(doc)
				err := refused(doc)
				if !problems.HasErrors() {
					require.NoError(t, err, "the schema refuses what the reader accepts: %s: %s\n%s", at, probe, doc)
				}
				n++
				wrong := strings.Contains(problems.String(), "want a mapping") ||
					strings.Contains(problems.String(), "want a list") ||
					strings.Contains(problems.String(), "want a single value") ||
					strings.Contains(problems.String(), `unknown key "zzzz"`)
				if wrong && k.Kind != shape.Either && k.Name != "expect" { // whose keys are those of group_by
					require.Error(t, err, "the schema accepts a value of another kind: %s: %s\n%s", at, probe, problems)
				}
			}
		}
	}
	require.Greater(t, n, 2000)
}

func readText(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}
