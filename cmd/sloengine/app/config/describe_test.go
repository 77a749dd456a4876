package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/ingest/redact"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamldoc/shape/shapetest"
)

// componentDefaults are the defaults in keys.txt that a component fills in, by its constants. The others say where a
// value comes from.
var componentDefaults = map[string]any{
	"smtp.tls":                         mail.StartTLS,
	"reports.at":                       sendAt,
	"limits.global.limit":              ratelimit.DefaultGlobalLimit,
	"limits.global.window":             ratelimit.DefaultGlobalWindow,
	"limits.default.limit":             ratelimit.DefaultTypeLimit,
	"limits.default.window":            time.Second,
	"limits.*.algorithm":               ratelimit.SlidingWindow,
	"limits.*.on_exceeded":             ratelimit.OnExceededSample,
	"limits.*.sample_rate":             ratelimit.DefaultSampleRate,
	"limits.*.throttle":                ratelimit.DefaultThrottleDelay,
	"limits.*.throttle_max":            ratelimit.DefaultThrottleMaxWait,
	"redact.replace":                   redact.DefaultReplace,
	"*.client_id":                      kafkaclient.DefaultClientID,
	"*.sasl.mechanism":                 kafkaclient.DefaultMechanism,
	"*.kafka.request_timeout":          kafkaclient.DefaultRequestTimeout,
	"*.rabbitmq.username":              amqpclient.DefaultUsername,
	"*.rabbitmq_dead_letters.username": amqpclient.DefaultUsername,
}

// Each key has a text, and no text is for a key that is not there.
func TestKeysHaveTexts(t *testing.T) {
	used := map[string]bool{}
	for _, s := range []shape.Shape{Shape(), RelayShape()} {
		s.Walk("", func(path string, m *shape.Shape) {
			for _, k := range m.Keys {
				require.Regexp(t, "^[A-Z`].*\\.$", k.Text, "%s needs a text in keys.txt", shape.Child(path, k.Name))
				used[k.Text] = true
				if k.Default != "" {
					used[k.Default] = true
				}
				used[k.Example] = true
			}
		})
	}
	for path, text := range keyTexts() {
		require.True(t, used[text], "keys.txt: no key uses %q", path)
		key, ok := strings.CutPrefix(path, "default ")
		if !ok || strings.ContainsAny(text, " [") {
			continue
		}
		want, known := componentDefaults[key]
		if !known && (text == "none" || text == "required" || text == "1" || text == "all" || text == "any" ||
			text == "limit") {
			continue // no value
		}
		require.True(t, known, "keys.txt: the default of %s is in no constant that this test knows", key)
		if d, ok := want.(time.Duration); ok {
			want = slo.FormatDuration(d)
		}
		require.Equal(t, fmt.Sprint(want), text, "keys.txt: the default of %s", key)
	}
}

// leaf is a key with a document that sets it and nothing else.
type leaf struct {
	path string
	*shape.Key
	wrap func(value *yaml.Node) *yaml.Node
}

func leaves(s shape.Shape) (all []leaf) {
	var inside func(path string, s *shape.Shape, wrap func(*yaml.Node) *yaml.Node)
	inside = func(path string, s *shape.Shape, wrap func(*yaml.Node) *yaml.Node) {
		switch s.Kind {
		case shape.Mapping:
			for i := range s.Keys {
				k := &s.Keys[i]
				in := func(v *yaml.Node) *yaml.Node { return wrap(mappingNode(k.Name, v)) }
				at := shape.Child(path, k.Name)
				all = append(all, leaf{at, k, in})
				inside(at, &k.Shape, in)
			}
		case shape.List:
			inside(path+"[]", s.Of, func(v *yaml.Node) *yaml.Node {
				return wrap(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{v}})
			})
		case shape.Map:
			inside(path, s.Of, func(v *yaml.Node) *yaml.Node { return wrap(mappingNode("some", v)) })
		case shape.Either:
			for i := range s.Or {
				inside(path, &s.Or[i], wrap)
			}
		}
	}
	inside("", &s, func(v *yaml.Node) *yaml.Node { return v })
	return all
}

func mappingNode(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, value}}
}

// decodeOnly reads settings without the checks of the whole.
func decodeOnly(t *testing.T, doc []byte, into any, d *yamldoc.Decoder) yamldoc.Problems {
	t.Helper()
	var r yamldoc.Reader
	root := r.Document("engine.yaml", doc)
	if root == nil {
		return r.Problems()
	}
	d.Dir, d.Duration = "/etc", slo.ParseDuration
	d.Decode(root, into)
	return r.Problems()
}

// The schema accepts all that the decoder accepts, and refuses unknown keys, values of another kind and numbers beyond
// their bounds. The decoder refuses what is described as beyond the bounds.
func TestSchemasAreThoseOfTheDecoder(t *testing.T) {
	for name, format := range map[string]struct {
		shape  shape.Shape
		decode func(doc []byte) yamldoc.Problems
	}{
		"engine.yaml": {Shape(), func(doc []byte) yamldoc.Problems {
			c := Default()
			return decodeOnly(t, doc, &c, &yamldoc.Decoder{Choose: environmentChooser("test"), Prefill: func(into any) {
				if p, ok := into.(prefilled); ok {
					p.prefill(&c)
				}
			}})
		}},
		"relay.yaml": {RelayShape(), func(doc []byte) yamldoc.Problems {
			c := DefaultRelay()
			return decodeOnly(t, doc, &c, &yamldoc.Decoder{Prefill: func(into any) {
				if p, ok := into.(prefilled); ok {
					p.prefill(nil)
				}
			}})
		}},
	} {
		refused := shapetest.Compile(t, format.shape)
		probes := []string{"1", "0", "-1", "0.5", "true", "text", "\"7\"", "5m", "0s", "64KiB", "[]", "{}", "[a]",
			"{zzzz: 1}", "[{zzzz: 1}]", "off", "unlimited", "{test: 5, default: 7}", "{test: [1]}", "null"}
		n := 0
		for _, l := range leaves(format.shape) {
			values := append(probes, l.Words...)
			values = append(values, l.Min, l.Max)
			for _, probe := range values {
				if probe == "" {
					continue
				}
				var value yaml.Node
				require.NoError(t, yaml.Unmarshal([]byte(probe), &value))
				doc, err := yaml.Marshal(l.wrap(value.Content[0]))
				require.NoError(t, err)
				var wrong []string
				missing := false
				for _, p := range format.decode(doc) {
					// Keys that are required beside the one that is tried are missing on purpose.
					if strings.HasSuffix(p.Message, ": missing") {
						missing = true
						continue
					}
					wrong = append(wrong, p.Message)
				}
				err = refused(string(doc))
				n++
				if len(wrong) == 0 && !missing {
					require.NoError(t, err, "%s: the schema refuses what the decoder accepts: %s", name, doc)
				}
				bounded := l.Kind == shape.Duration || l.Kind == shape.Size
				for _, w := range wrong {
					if strings.Contains(w, "unknown key") || strings.Contains(w, "want ") || strings.Contains(w, "unknown value") ||
						strings.Contains(w, "must be") && !bounded {
						require.Error(t, err, "%s: the schema accepts what the decoder refuses: %s: %s", name, doc, w)
					}
				}
			}
			if l.Min != "" && l.Above {
				doc, err := yaml.Marshal(l.wrap(&yaml.Node{Kind: yaml.ScalarNode, Value: l.Min}))
				require.NoError(t, err)
				require.Contains(t, format.decode(doc).String(), "must be more than", "%s: %s", l.path, doc)
			}
		}
		require.Greater(t, n, 2000)
	}
}

// The settings in deploy/ and in the released data satisfy the schemas.
func TestSchemasAcceptTheExamples(t *testing.T) {
	engine, relay := shapetest.Compile(t, Shape()), shapetest.Compile(t, RelayShape())
	data, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	require.NoError(t, engine(string(data)))
	require.NoError(t, engine(uncommented(string(data))))
	require.Error(t, engine("web: {prof: true}"))
	for _, pattern := range []string{"../../../../deploy/*/engine*.yaml", "../../../../testdata/frozen/*/engine*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, engine(string(data)), file)
		}
	}
	files, err := filepath.Glob("../../../../deploy/relay*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, relay(string(data)), file)
	}
}

// A default that is described is the one of an empty file.
func TestDescribedDefaults(t *testing.T) {
	c := Default()
	for path, want := range map[string]any{
		"ingest.max_body": c.Ingest.MaxBody, "retry.base": c.Retry.Base, "timeout": c.Timeout,
		"dead_letters.segment": c.DeadLetters.Segment,
		"notifications.send":   c.Notifications.Send, "breaker.rate.threshold": c.Breaker.V.Rate.V.Threshold,
	} {
		for _, l := range leaves(Shape()) {
			if l.path == path {
				if d, ok := want.(time.Duration); ok {
					want = slo.FormatDuration(d)
				} else if l.Kind == shape.Size {
					want = yamldoc.FormatSize(reflect.ValueOf(want).Int())
				}
				require.Equal(t, fmt.Sprint(want), l.Default, path)
			}
		}
	}
	require.Equal(t, "16MiB", yamldoc.FormatSize(16<<20))
	require.Equal(t, "10MB", yamldoc.FormatSize(10_000_000))
	require.Equal(t, "1500", yamldoc.FormatSize(1500))
}
