package config

import (
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretWords are parts of names that suggest a secret.
var secretWords = regexp.MustCompile(`(^|_)(password|secret|token|tokens|key|dsn|auth|credentials|bearer)($|_)`)

// noSecrets are keys whose names suggest a secret and that hold none, by the reason.
var noSecrets = map[string]string{
	"limits.bypass.tokens":                            "names of tokens",
	"sinks.kafka.key":                                 "which field partitions go by",
	"sinks.rabbitmq.routing_key":                      "where messages go",
	"sources.outbox.dsn":                              "refused with a password: dsn_file or password_file hold it",
	"sources.outbox.listen_dsn":                       "refused with a password: listen_dsn_file holds it",
	"notifications.alertmanagers.basic_auth.username": "a name",
}

// Every secret in engine.yaml comes from a file, or from an environment variable that the key names: never as text.
func TestSecretsComeFromFiles(t *testing.T) {
	files, left := 0, map[string]bool{}
	for key := range noSecrets {
		left[key] = true
	}
	leafKeys("", reflect.TypeFor[Config](), func(key, _ string) {
		name := path.Base(strings.ReplaceAll(key, ".", "/"))
		if !secretWords.MatchString(name) {
			delete(left, key)
			return
		}
		switch {
		case strings.HasSuffix(name, "_file"), strings.HasSuffix(name, "_files"), strings.HasSuffix(name, "_env"):
			files++
		case noSecrets[key] == "":
			t.Errorf("%s looks like a secret in plain text: read it from a file (%s_file), or say in noSecrets why it is none",
				key, name)
		}
		delete(left, key)
	})
	require.Greater(t, files, 20)
	for key := range left {
		t.Errorf("%s is no key any more", key)
	}
}
