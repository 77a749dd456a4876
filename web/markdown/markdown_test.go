package markdown

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRender(t *testing.T) {
	const rel = ` rel="noopener noreferrer nofollow"`
	for in, want := range map[string]string{
		"**db-7** is `down`":             "<p><strong>db-7</strong> is <code>down</code></p>\n",
		"# Cause\n- a\n- b":              "<h4>Cause</h4>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n",
		"###### deep":                    "<h6>deep</h6>\n",
		"[wiki](https://wiki.example/7)": `<p><a href="https://wiki.example/7"` + rel + ">wiki</a></p>\n",
		"https://wiki.example/7":         `<p><a href="https://wiki.example/7"` + rel + ">https://wiki.example/7</a></p>\n",
		"[x](javascript:alert(1))":       "<p>x</p>\n",
		"[x](/-/reload)":                 "<p>x</p>\n",
		"[x](//evil.example)":            "<p>x</p>\n",
		"![pixel](https://evil.example/p.png)": `<p><a href="https://evil.example/p.png"` + rel +
			">pixel</a></p>\n",
		"<javascript:alert(1)>":              `<p><a href=""` + rel + ">javascript:alert(1)</a></p>\n",
		"[a![b](data:x)](https://c.example)": `<p><a href="https://c.example"` + rel + ">ab</a></p>\n",
		"<script>alert(1)</script>":          "<!-- raw HTML omitted -->\n",
		"a <img src=x onerror=1> b":          "<p>a <!-- raw HTML omitted --> b</p>\n",
		"`<b>` & \"q\"":                      "<p><code>&lt;b&gt;</code> &amp; &quot;q&quot;</p>\n",
		"\u202egnp.exe\r\nb\x00":             "<p>\\u{202e}gnp.exe\nb\\u{0}</p>\n",
		strings.Repeat("> ", 17) + "<":       "<p>" + strings.Repeat("&gt; ", 17) + "&lt;\n</p>\n",
		"":                                   "",
	} {
		require.Equal(t, want, string(Render(in)), in)
	}
	require.Contains(t, string(Render(strings.Repeat("я", 20<<10))), "…")
}

// No text of the size that an incident takes keeps the engine busy.
func TestRenderIsBounded(t *testing.T) {
	for _, s := range []string{">", "> ", "1. ", "> - ", "[a](", "[", "![", "(", "<", "*a ", "_a_ ", "***a", "`",
		"www.a.b ", "- a\n  ", "[a]: x\n"} {
		start := time.Now()
		out := Render(strings.Repeat(s, (16<<10)/len(s)))
		require.Less(t, time.Since(start), time.Second, s)
		require.Less(t, len(out), 1<<20, s)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("**a** [b](https://c.example) ![d](x)")
	f.Add("> - 1. <script>")
	f.Fuzz(func(t *testing.T, s string) {
		out := strings.ToLower(string(Render(s)))
		for _, bad := range []string{"<script", "<img", "<iframe", "<style", "href=\"javascript", "href=\"/", "href=\"data"} {
			require.NotContains(t, out, bad)
		}
	})
}
