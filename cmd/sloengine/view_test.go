package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEngineURLs(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "no engines given",
		"ftp://a":                "invalid URL",
		"http://":                "invalid URL",
		"http://a?x=y":           "invalid URL",
		"http://u:secret@a":      "--token-file",
		"http://a:1,http://a:1":  "given twice",
		"http://a:1,https://a:1": "",
	} {
		var texts []string
		if text != "" {
			texts = strings.Split(text, ",")
		}
		urls, err := engineURLs(texts)
		if want == "" {
			require.NoError(t, err)
			require.Len(t, urls, 2)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}
