package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var freeze = flag.String(
	"freeze", "", "write settings.json of testdata/frozen/`VERSION`; see testdata/frozen/README.md")

// TestFrozenSettings reads the engine.yaml and the example with all settings of earlier versions:
// each key means what it meant. Later settings may come beside them.
func TestFrozenSettings(t *testing.T) {
	const frozen = "../../../../testdata/frozen"
	if *freeze != "" {
		data, err := json.MarshalIndent(frozenSettings(t, filepath.Join(frozen, *freeze)), "", "")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(frozen, *freeze, "settings.json"), append(data, '\n'), 0o644))
	}
	versions, err := filepath.Glob(frozen + "/*/settings.json")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, name := range versions {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var want map[string]string
		require.NoError(t, json.Unmarshal(data, &want))
		now := frozenSettings(t, filepath.Dir(name))
		for key, value := range want {
			require.Equal(t, value, now[key], key)
		}
	}
}

var envKey = regexp.MustCompile(`\b\w+_env: (\w+)`)

// frozenSettings flattens what the settings mean to one line per key.
func frozenSettings(t testing.TB, dir string) map[string]string {
	t.Helper()
	settings := map[string]string{}
	engine, err := os.ReadFile(filepath.Join(dir, "engine.yaml"))
	require.NoError(t, err)
	all, err := os.ReadFile(filepath.Join(dir, "settings.yaml"))
	require.NoError(t, err)
	for _, m := range envKey.FindAllSubmatch(all, -1) {
		t.Setenv(string(m[1]), "secret")
	}
	for name, text := range map[string]string{"engine": string(engine), "settings": string(all),
		"all": uncommented(string(all))} {
		at := t.TempDir()
		secretsIn(t, at)
		c, err := load(t, at, text)
		require.NoError(t, err, name)
		flatten(name, reflect.ValueOf(c), func(key, value string) {
			settings[key] = strings.ReplaceAll(value, at, "")
		})
	}
	return settings
}

// flatten walks a setting to its values. Numbers are those of the smallest unit. A struct without
// keys is a value with more to it, whose first field counts.
func flatten(key string, v reflect.Value, add func(key, value string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			flatten(key, v.Elem(), add)
		} else if e := v.Type().Elem(); e.Kind() == reflect.Int64 || e.Kind() == reflect.Float64 {
			add(key, "0") // a value that is not set was zero, and said so beside it
		}
	case reflect.Slice:
		for i := range v.Len() {
			flatten(fmt.Sprintf("%s[%d]", key, i), v.Index(i), add)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			flatten(key+"."+k.String(), v.MapIndex(k), add)
		}
	case reflect.Struct:
		keyed := false
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			switch {
			case name != "" && name != "-":
				flatten(key+"."+name, v.Field(i), add)
				keyed = true
			case v.Type().Field(i).Anonymous:
				flatten(key, v.Field(i), add)
				keyed = true
			}
		}
		if !keyed && v.NumField() > 0 {
			flatten(key, v.Field(0), add)
		}
	case reflect.Int, reflect.Int64:
		add(key, fmt.Sprint(v.Int()))
	case reflect.Uint64:
		add(key, fmt.Sprint(v.Uint()))
	case reflect.Uint8:
		if name, ok := v.Interface().(fmt.Stringer); ok {
			add(key, name.String())
		}
	case reflect.Float64:
		add(key, fmt.Sprint(v.Float()))
	case reflect.Bool:
		add(key, fmt.Sprint(v.Bool()))
	case reflect.String:
		if v.String() != "" {
			add(key, v.String())
		}
	}
}
