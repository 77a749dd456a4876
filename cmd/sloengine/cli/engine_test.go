package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// engineOf parses flags with an environment.
func engineOf(t *testing.T, env map[string]string, args ...string) *Engine {
	t.Helper()
	for _, name := range []string{EnvURL, EnvToken, EnvTokenFile} {
		t.Setenv(name, env[name])
	}
	e, f := &Engine{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	e.AddFlags(f)
	require.NoError(t, f.Parse(args))
	return e
}

func TestAFlagTakesPrecedenceOverTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	inFile, inFlag := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(inFile, []byte("token-of-variable-file\n"), 0o600))
	require.NoError(t, os.WriteFile(inFlag, []byte("token-of-flag-file\n"), 0o600))
	env := map[string]string{EnvURL: "https://slo.example.org/prefix", EnvToken: " token-of-variable "}

	address := func(e *Engine) string {
		u, err := e.URL()
		require.NoError(t, err)
		return u.String() + " of " + e.AddressFrom()
	}
	token := func(e *Engine) string {
		secret, err := e.Token()
		require.NoError(t, err)
		return secret
	}
	e := engineOf(t, nil)
	require.Equal(t, "http://127.0.0.1:8080 of default URL", address(e))
	require.Empty(t, token(e))
	require.Contains(t, e.Denied(), "no token was sent")

	e = engineOf(t, env)
	require.Equal(t, "https://slo.example.org/prefix of SLOENGINE_URL", address(e))
	require.Equal(t, "token-of-variable", token(e))
	require.Equal(t, "the token is that of SLOENGINE_TOKEN", e.Denied())

	e = engineOf(t, env, "--url", "http://a:1", "--token-file", inFlag)
	require.Equal(t, "http://a:1 of --url", address(e))
	require.Equal(t, "token-of-flag-file", token(e))
	require.Equal(t, "the token is that of --token-file, file "+inFlag, e.Denied())

	e = engineOf(t, map[string]string{EnvTokenFile: inFile})
	require.Equal(t, "token-of-variable-file", token(e))
	require.Contains(t, e.Denied(), EnvTokenFile)
	require.Equal(t, "token-of-flag-file",
		token(engineOf(t, map[string]string{EnvTokenFile: inFile, EnvToken: "x"}, "--token-file", inFlag)))
}

func TestErrorsNameTheSourceAndNoSecret(t *testing.T) {
	const secret = "s3cr3t"
	for _, tt := range []struct {
		env   map[string]string
		args  []string
		url   string // its error
		token string // likewise
	}{
		{env: map[string]string{EnvURL: "localhost:8080"},
			url: `invalid SLOENGINE_URL "localhost:8080" (want an address such as http://127.0.0.1:8080)`},
		{args: []string{"--url", ""}, env: map[string]string{EnvURL: "http://a"},
			url: `invalid --url "" (want an address such as http://127.0.0.1:8080)`},
		{args: []string{"--url", "ftp://u:" + secret + "@a"},
			url: "invalid --url (want an address such as http://127.0.0.1:8080)"},
		{env: map[string]string{EnvURL: "http://u:" + secret + "@a:x"},
			url: "invalid SLOENGINE_URL (want an address such as http://127.0.0.1:8080)"},
		{env: map[string]string{EnvToken: secret, EnvTokenFile: "/no"},
			token: "both SLOENGINE_TOKEN and SLOENGINE_TOKEN_FILE are set (unset one of them, or set --token-file)"},
		{env: map[string]string{EnvToken: secret + "\n" + secret},
			token: "invalid token of SLOENGINE_TOKEN: it has characters that an HTTP header cannot carry"},
		{env: map[string]string{EnvTokenFile: "/no/such"},
			token: "read token of SLOENGINE_TOKEN_FILE: open /no/such: no such file or directory"},
	} {
		e := engineOf(t, tt.env, tt.args...)
		if _, err := e.URL(); tt.url != "" {
			require.EqualError(t, err, tt.url)
		}
		if _, err := e.Token(); tt.token != "" {
			require.EqualError(t, err, tt.token)
		}
	}
}

// Commands of one group share an Engine, and each has flags of its own.
func TestCommandsShareAnEngine(t *testing.T) {
	t.Setenv(EnvURL, "http://other")
	for used := range 2 {
		e := &Engine{}
		sets := []*pflag.FlagSet{pflag.NewFlagSet("add", pflag.ContinueOnError),
			pflag.NewFlagSet("list", pflag.ContinueOnError)}
		for _, f := range sets {
			e.AddFlags(f)
		}
		require.NoError(t, sets[used].Parse([]string{"--url", "http://mine"}))
		u, err := e.URL()
		require.NoError(t, err)
		require.Equal(t, "http://mine", u.String())
	}
}

// A server that is no engine shares the flag with its token, and never gets the token of an engine.
func TestAForeignServerGetsNoTokenOfTheEnvironment(t *testing.T) {
	t.Setenv(EnvURL, "http://engine")
	t.Setenv(EnvToken, "token-of-engine")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("mine\n"), 0o600))
	var engine, other Engine
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	engine.AddOptional(f, "from-traffic", "URL")
	other.AddForeign(f, "from-prometheus", "URL")
	require.NoError(t, f.Parse([]string{"--from-prometheus", "here"}))
	require.True(t, other.Named())
	require.False(t, engine.Named())
	_, err := other.URL()
	require.EqualError(t, err, `invalid --from-prometheus "here" (want an address such as http://127.0.0.1:9090)`)
	token, err := other.Token()
	require.NoError(t, err)
	require.Empty(t, token)
	require.Equal(t, "no token was sent (set --token-file)", other.Denied())
	require.NoError(t, f.Parse([]string{"--token-file", file}))
	token, err = other.Token()
	require.NoError(t, err)
	require.Equal(t, "mine", token)
}
