package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublicPageSettings(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"a.png": "\x89PNG\r\n\x1a\n", "a.svg": `<?xml version="1.0"?><svg/>`,
		"a.txt":  "logo",
		"a.html": "<!doctype html><script>", "large.svg": "<svg>" + strings.Repeat(" ", maxLogo)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	for settings, typ := range map[string]string{"name: Shop": "", "name: Shop, logo: a.png": "image/png",
		"name: Shop, logo: a.svg": "image/svg+xml", `color: "#0b5f75", color_dark: "#7CC7DB"`: ""} {
		c, err := load(t, dir, "public: {"+settings+"}")
		require.NoError(t, err, settings)
		look, err := c.PublicLook()
		require.NoError(t, err, settings)
		require.Equal(t, typ, look.LogoType)
	}
	for settings, want := range map[string]string{
		"logo: a.png":                      "public.name: missing",
		"name: Shop, logo: a.txt":          "a.txt: want an image in SVG, PNG, JPEG or WebP",
		"name: Shop, logo: a.html":         "a.html: want an image in SVG, PNG, JPEG or WebP",
		"name: Shop, logo: large.svg":      "262144",
		"name: Shop, logo: none.png":       "none.png: no such file",
		"name: " + strings.Repeat("x", 81): "at most 80 printable characters",
		`name: "a\nb"`:                     "at most 80 printable characters",
		"color: red":                       "public.color: want # and six hexadecimal digits",
		"subscriptions: true":              "public.subscriptions: needs web.external_url",
		"private_webhooks: true":           "public.private_webhooks: without effect",
		`color: "#0b5f7g"`:                 "public.color: want # and six hexadecimal digits",
		`color: "#ffd700"`: "public.color: has a contrast of 1.3 on a light page, " +
			"and text needs 4.5",
		`color: "#0b5f75"`: "public.color_dark: has a contrast of 2.3 on a dark page, " +
			"and text needs 4.5",
		`color_dark: "#7cc7db"`:                     "public.color: missing",
		`color: "#0b5f75", color_dark: "#0b5f75;}"`: "public.color_dark: want # and six hexadecimal digits",
	} {
		_, err := load(t, dir, "public: {"+settings+"}")
		require.ErrorContains(t, err, want, settings)
	}
}
