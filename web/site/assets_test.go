package site

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// assetBudget is what all scripts and style sheets may weigh together, in bytes
// after gzip. The aim is 35,000 for scripts alone.
const assetBudget = 32_000

func TestAssetsAreSmall(t *testing.T) {
	assets, err := loadAssets()
	require.NoError(t, err)
	total := 0
	for name, a := range assets {
		if !strings.HasPrefix(a.typ, "image/") {
			t.Logf("%s: %d bytes, %d after gzip", name, len(a.body), len(a.zipped))
			total += len(a.zipped)
		}
	}
	require.LessOrEqual(t, total, assetBudget)
	t.Logf("JavaScript and CSS: %d bytes after gzip", total)
}

// What is vendored is recorded: file, version, licence and hash.
func TestVendoredFilesAreRecorded(t *testing.T) {
	rowOf := regexp.MustCompile(
		`(?m)^\| ([^ |]+) \| ([^ |]+) \| ([0-9.]+) \| ([A-Z0-9a-z.-]+) \(([^)]+)\) \| ([0-9a-f]{64}) \|$`)
	readme, err := files.ReadFile("static/vendor/README.md")
	require.NoError(t, err)
	known := map[string]bool{"README.md": true}
	for _, m := range rowOf.FindAllStringSubmatch(string(readme), -1) {
		raw, err := files.ReadFile("static/vendor/" + m[1])
		require.NoError(t, err)
		sum := sha256.Sum256(raw)
		require.Equal(t, m[6], hex.EncodeToString(sum[:]), "%s is not what its row says", m[1])
		licence, err := files.ReadFile("static/vendor/" + m[5])
		require.NoError(t, err)
		require.Greater(t, len(licence), 100)
		known[m[1]], known[m[5]] = true, true
	}
	list, err := files.ReadDir("static/vendor")
	require.NoError(t, err)
	for _, f := range list {
		require.True(t, known[f.Name()], "static/vendor/%s has no row in README.md", f.Name())
	}
	require.Len(t, list, len(known))
}

func TestShrinking(t *testing.T) {
	require.Equal(t, "a,b{color:red;content:\" ↓\"}@media (max-width: 9px){a:hover{x:1}}\n",
		shrinkCSS(
			"/* one\ntwo */ a, b {\n  color: red; content: \" ↓\";\n}\n@media (max-width: 9px) { a:hover { x: 1; } }\n"))
	require.Equal(t, "let a = 'x // y';\nb();\n", shrinkJS("// comment\n\tlet a = 'x // y';\n\n  // more\n  b();\n"))
}

// Own code asks no other host, and evaluates no text as code.
func TestOwnScriptsAreStrict(t *testing.T) {
	for _, pattern := range []string{"static/js/*.js", "static/zone/*.js", "static/css/*.css", "static/*.svg"} {
		list, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, list, pattern)
		for _, name := range list {
			raw, err := files.ReadFile(filepath.ToSlash(name))
			require.NoError(t, err)
			for _, bad := range []string{"http://", "https://", "eval(", "Function(", "innerHTML", "outerHTML",
				"insertAdjacentHTML", "document.write", "url(", "@import"} {
				if bad == "http://" && strings.Contains(string(raw), `xmlns="http://www.w3.org/2000/svg"`) {
					continue // a name, not an address
				}
				require.False(t, strings.Contains(string(raw), bad), "%s has %q", name, bad)
			}
			for line := range strings.Lines(string(raw)) {
				require.Zero(t, strings.Count(line, "`")%2,
					"%s: a template literal over several lines, which shrinking would change: %s", name, line)
			}
		}
	}
}

func TestContrast(t *testing.T) {
	raw, err := files.ReadFile("static/css/00-tokens.css")
	require.NoError(t, err)
	tokens := regexp.MustCompile(
		`--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`).FindAllStringSubmatch(string(raw), -1)
	require.Greater(t, len(tokens), 20)
	for i, name := range []string{"light", "dark"} {
		grounds := map[string]string{}
		for _, m := range tokens {
			grounds[m[1]] = m[2+i]
		}
		require.Equal(t, grounds[[]string{"ground", "sheet"}[i]], []string{lightGround, darkGround}[i], name)
		colour := map[string]float64{}
		for _, m := range tokens {
			colour[m[1]] = luminance(m[2+i])
		}
		ratio := func(a, b string) float64 {
			return (max(colour[a], colour[b]) + 0.05) / (min(colour[a], colour[b]) + 0.05)
		}
		for _, ground := range []string{"ground", "sheet", "raised"} {
			for _, fore := range []string{"text", "soft", "link", "ok", "risk", "bad", "none", "info"} {
				require.GreaterOrEqual(t, ratio(fore, ground), 4.5, "%s: %s on %s", name, fore, ground)
			}
			require.GreaterOrEqual(t, ratio("edge", ground), 3.0, "%s: edge on %s", name, ground)
		}
		for _, wash := range []string{"bad-wash", "risk-wash", "info-wash", "ok-wash"} {
			require.GreaterOrEqual(t, ratio("text", wash), 4.5, "%s: text on %s", name, wash)
		}
		for _, mark := range []string{"ok", "risk", "bad"} {
			require.GreaterOrEqual(t, ratio("on", mark), 3.0, "%s: sign on %s", name, mark)
		}
	}
}

func TestColoursAreTokens(t *testing.T) {
	list, err := files.ReadDir("static/css")
	require.NoError(t, err)
	for _, f := range list {
		if f.Name() == "00-tokens.css" {
			continue
		}
		raw, err := files.ReadFile("static/css/" + f.Name())
		require.NoError(t, err)
		uses := regexp.MustCompile(`--[a-z0-9-]+: light-dark\(#[0-9a-f]{6}, #[0-9a-f]{6}\)`).ReplaceAllString(string(raw), "")
		require.Empty(t, regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(`).FindAllString(uses, -1),
			"%s: a colour that is no token", filepath.Join("static/css", f.Name()))
	}
}
