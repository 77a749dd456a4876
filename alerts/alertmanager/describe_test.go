package alertmanager

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamldoc/shape/shapetest"
)

// The description of a file of receivers has exactly the keys of the reader, and its schema accepts and refuses the
// same.
func TestDescription(t *testing.T) {
	s := Shape()
	texts := shape.ParseTexts(keysFile)
	left := map[string]bool{}
	for path := range texts {
		left[path[strings.LastIndex(path, " ")+1:]] = true
	}
	paths := slices.Sorted(maps.Keys(left))
	s.Walk("", func(path string, m *shape.Shape) {
		for i := range m.Keys {
			k := &m.Keys[i]
			at := strings.ReplaceAll(strings.ReplaceAll(shape.Child(path, k.Name), "[]", ""), ".NAME", "")
			require.Regexp(t, `^[A-Z].*\.$`, k.Text, "%s needs a text", at)
			require.NotEmpty(t, k.Example, at)
			delete(left, at)
		}
	})
	require.Empty(t, left, "texts of keys that are not there")

	refused := shapetest.Compile(t, s)
	golden, err := os.ReadFile("testdata/receivers.yaml")
	require.NoError(t, err)
	require.NoError(t, refused(string(golden)))

	// One document has the example of every key, and each required key is missed by both.
	section := func(prefix string, except ...string) string {
		var parts []string
		for _, path := range paths {
			key, ok := strings.CutPrefix(path, prefix)
			if ok && !strings.Contains(key, ".") && !slices.Contains(except, path) && !slices.Contains(except, key) {
				parts = append(parts, fmt.Sprintf("%s: %s", key, texts["example "+path]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	whole := func(except string) string {
		receiver := strings.TrimSuffix(section("receivers.", except, "slack", "pagerduty", "webhook", "email"), "}")
		for _, channel := range []string{"slack", "pagerduty", "webhook", "email"} {
			if receiver != "{" {
				receiver += ", "
			}
			receiver += channel + ": " + section("receivers."+channel+".", except, "service_key_file", "credentials_file")
		}
		out := "receivers: [" + receiver +
			"}, {name: oncall, email: {to: a@example.org}}, {name: switch, email: {to: b@example.org}}]\n" +
			"smtp: " + section("smtp.", except) + "\ntiming: {warning: " + section("timing.", except) + "}\n"
		for _, key := range []string{"version", "default", "routes", "services", "watchdog"} {
			if key != except {
				out += key + ": " + texts["example "+key] + "\n"
			}
		}
		return out
	}
	_, err = ReadReceivers("r.yaml", []byte(whole("")))
	require.NoError(t, err, whole(""))
	require.NoError(t, refused(whole("")))
	for _, path := range paths {
		if texts["required "+path] != "" && path != "receivers" {
			_, err := ReadReceivers("r.yaml", []byte(whole(path)))
			require.Error(t, err, "without %s", path)
			require.Error(t, refused(whole(path)), "without %s", path)
		}
	}
	for _, wrong := range []string{
		"other: 1", "timing: {urgent: {group_wait: 1s}}", "timing: {critical: {wait: 1s}}", "routes: {urgent: a}",
		"smtp: {smarthost: a:1, from: a@b, tls: maybe}",
		"receivers: {a: b}", "receivers: [{name: 1, email: {to: a@b}}]",
		"receivers: [{name: a, slack: {api_url: x, channel: c}}]",
		"receivers: [{name: a, pagerduty: {routing_key_file: /a, severity: high}}]", "services: {a: {urgent: b}}",
	} {
		doc := "version: sloengine/receivers/v1\ndefault: a\n" + wrong + "\n"
		_, err := ReadReceivers("r.yaml", []byte(doc))
		require.Error(t, err, doc)
		require.Error(t, refused(doc), doc)
	}
}
