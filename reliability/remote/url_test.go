package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://a": "", "https://a.example:8443/x?y=z": "", "http://[::1]:80/": "",
		"": "must begin with", "a:80": "must begin with", "javascript:alert(1)": "must begin with",
		"ftp://a": "must begin with", "http:///x": "have a host", "http://:80": "have a host",
		"http://me:hush@a": "must not contain credentials, set token_file", "http://hush@a": "must not contain credentials",
		"http://@a":      "must not contain credentials",
		"http://a/#hush": "fragment", "http://a\n": "not a URL", "http://me:hush@a b": "not a URL", "%zzhush": "not a URL",
	} {
		err := CheckURL(text, "token_file")
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hush")
	}
	require.EqualError(t, CheckURL("http://a:b@c", ""), "must not contain credentials")
	require.NoError(t, CheckBaseURL("https://a/b", ""))
	for _, text := range []string{"https://a?", "https://a/b?c=d"} {
		require.EqualError(t, CheckBaseURL(text, ""), "must not have a query")
	}
	require.Error(t, CheckBaseURL("a", ""))
}
