package cli

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Environment variables that stand for the flags of Engine. A flag takes precedence.
const (
	EnvURL       = "SLOENGINE_URL"
	EnvToken     = "SLOENGINE_TOKEN"
	EnvTokenFile = "SLOENGINE_TOKEN_FILE"
)

// defaultURL is where an engine listens that is told nothing else.
const defaultURL = "http://127.0.0.1:8080"

// Engine is the engine that a command talks to: its address and the token, each from a flag or from the environment.
// They are read with each use.
type Engine struct {
	address, tokenFile           string
	addressFlags, tokenFileFlags []*pflag.Flag // of each command that shares it
	foreign                      bool
}

// AddFlags adds --url and --token-file.
func (e *Engine) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&e.address, "url", "", "URL of the engine (default: $"+EnvURL+", else "+defaultURL+")")
	e.addressFlags = append(e.addressFlags, f.Lookup("url"))
	e.AddTokenFile(f, "file with the bearer token")
}

// AddOptional adds a flag of that name for an engine that a command may ask, and --token-file. Named reports whether it
// does.
func (e *Engine) AddOptional(f *pflag.FlagSet, flag, usage string) {
	f.StringVar(&e.address, flag, "", usage)
	e.addressFlags = append(e.addressFlags, f.Lookup(flag))
	e.AddTokenFile(f, "file with the bearer token of --"+flag)
}

// AddForeign adds a flag of that name for a server that is no engine, after the --token-file of the command, which it
// shares. The server gets no token of the environment, which is that of an engine.
func (e *Engine) AddForeign(f *pflag.FlagSet, flag, usage string) {
	e.foreign = true
	f.StringVar(&e.address, flag, "", usage)
	e.addressFlags = append(e.addressFlags, f.Lookup(flag))
	token := f.Lookup("token-file")
	token.Usage += "; or that of --" + flag + ", without a default"
	e.tokenFileFlags = append(e.tokenFileFlags, token)
}

// AddServer adds a flag of that name for a server that is no engine and is asked beside one, with a flag for its token.
func (e *Engine) AddServer(f *pflag.FlagSet, flag, usage string) {
	e.foreign = true
	f.StringVar(&e.address, flag, "", usage)
	e.addressFlags = append(e.addressFlags, f.Lookup(flag))
	f.StringVar(&e.tokenFile, flag+"-token-file", "", "file with the bearer token of --"+flag)
	e.tokenFileFlags = append(e.tokenFileFlags, f.Lookup(flag+"-token-file"))
}

// Named reports whether a flag names the engine.
func (e *Engine) Named() bool { return changed(e.addressFlags) }

// AddTokenFile adds --token-file alone, for a command that finds its engines by other flags.
func (e *Engine) AddTokenFile(f *pflag.FlagSet, usage string) {
	f.StringVar(&e.tokenFile, "token-file", "", usage+" (default: $"+EnvToken+", else the file $"+EnvTokenFile+")")
	e.tokenFileFlags = append(e.tokenFileFlags, f.Lookup("token-file"))
}

// URL is the address. Its errors name the flag or the variable that it comes from, and show no password.
func (e *Engine) URL() (*url.URL, error) {
	text, from := e.addressText()
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return u, nil
	}
	example := defaultURL
	if e.foreign {
		example = "http://127.0.0.1:9090"
	}
	if strings.Contains(text, "@") { // it may hold a password
		return nil, Usagef("invalid %s (want an address such as %s)", from, example)
	}
	return nil, Usagef("invalid %s %q (want an address such as %s)", from, text, example)
}

func changed(flags []*pflag.Flag) bool {
	return slices.ContainsFunc(flags, func(f *pflag.Flag) bool { return f.Changed })
}

func (e *Engine) addressText() (text, from string) {
	for _, f := range e.addressFlags {
		if f.Changed {
			return e.address, "--" + f.Name
		}
	}
	if text := os.Getenv(EnvURL); text != "" {
		return text, EnvURL
	}
	return defaultURL, "default URL"
}

// AddressFrom says where the address comes from, for errors.
func (e *Engine) AddressFrom() string {
	_, from := e.addressText()
	return from
}

// Secret is where the token is: in a file, or itself. From names the flag or the variable, "" without a token.
type Secret struct{ Token, File, From string }

// Secret finds the token. It reads no file.
func (e *Engine) Secret() (Secret, error) {
	for _, f := range e.tokenFileFlags {
		if file := f.Value.String(); f.Changed && file != "" {
			return Secret{File: file, From: "--" + f.Name}, nil
		}
	}
	token, file := strings.TrimSpace(os.Getenv(EnvToken)), os.Getenv(EnvTokenFile)
	switch {
	case e.foreign:
	case token != "" && file != "":
		return Secret{}, Usagef("both %s and %s are set (unset one of them, or set --token-file)", EnvToken, EnvTokenFile)
	case token != "":
		return Secret{Token: token, From: EnvToken}, checkToken(token, EnvToken)
	case file != "":
		return Secret{File: file, From: EnvTokenFile}, nil
	}
	return Secret{}, nil
}

// maxTokenFile bounds a file with a token.
const maxTokenFile = 64 << 10

// Token is the token itself, "" without one.
func (e *Engine) Token() (string, error) {
	s, err := e.Secret()
	if err != nil || s.File == "" {
		return s.Token, err
	}
	data, err := fsys.ReadFile(s.File, maxTokenFile)
	if err != nil {
		return "", fmt.Errorf("read token of %s: %w", s.From, err)
	}
	token := strings.TrimSpace(string(data))
	return token, checkToken(token, s.From)
}

// checkToken refuses what no header can carry, without repeating it.
func checkToken(token, from string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("invalid token of %s: it has characters that an HTTP header cannot carry", from)
	}
	return nil
}

// Denied explains an answer with status 401 or 403: which token was sent, never its value.
func (e *Engine) Denied() string {
	switch s, _ := e.Secret(); s.From {
	case "":
		if e.foreign {
			return "no token was sent (set --token-file)"
		}
		return fmt.Sprintf("no token was sent (set --token-file, %s or %s)", EnvToken, EnvTokenFile)
	case EnvToken:
		return "the token is that of " + EnvToken
	default:
		return fmt.Sprintf("the token is that of %s, file %s", s.From, s.File)
	}
}
