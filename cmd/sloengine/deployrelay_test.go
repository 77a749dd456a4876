package main

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
)

// parseRelay parses a command line of relay without running it.
func parseRelay(t *testing.T, args []string) *cobra.Command {
	t.Helper()
	require.Equal(t, "relay", args[0])
	c := newRelay(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	require.NoError(t, c.ParseFlags(args[1:]), args)
	require.Empty(t, c.Flags().Args(), args)
	return c
}

// The pods of a relay mount what its settings name, have enough time to stop, and are probed where it answers.
func TestRelayManifests(t *testing.T) {
	const dir = "kubernetes/relay"
	all := manifests(t, dir)
	var k struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, dir+"/kustomization.yaml")), &k))
	require.Len(t, k.Resources, len(all)-1)
	for _, name := range k.Resources {
		require.Contains(t, all, name)
	}

	pod := all["deployment.yaml"].Spec.Template.Spec
	require.True(t, pod.Security.NonRoot)
	require.Greater(t, pod.Grace, 10)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.True(t, c.Security.ReadOnly)
	require.False(t, *c.Security.Escalate)
	flags := parseRelay(t, c.Args)
	require.True(t, strings.HasSuffix(flags.Flag("web.listen-address").Value.String(), ":8080"))
	require.Equal(t, 8080, c.Ports[0].ContainerPort)
	require.Equal(t, "/-/healthy", c.Liveness.HTTPGet.Path)
	require.Equal(t, "/-/ready", c.Readiness.HTTPGet.Path)

	mounted := map[string]string{} // kind and name of what is mounted, by path
	for _, m := range c.Mounts {
		for _, v := range pod.Volumes {
			if v.Name == m.Name {
				mounted[m.MountPath] = "map " + v.ConfigMap.Name
				if v.Secret.Name != "" {
					mounted[m.MountPath] = "secret " + v.Secret.Name
				}
			}
		}
	}
	file := flags.Flag("file").Value.String()
	settings := all["configmap.yaml"]
	require.Equal(t, "map "+settings.Metadata.Name, mounted[filepath.Dir(file)])
	const secret = "/etc/sloengine/database"
	require.Equal(t, "secret outbox-database", mounted[secret])
	require.Contains(t, deployFile(t, dir+"/kustomization.yaml"),
		"create secret generic outbox-database --from-file=dsn\n")
	here := t.TempDir() // the secret as it is mounted
	e2etest.WriteFile(t, here, "dsn", "postgres://relay@db.example.org:5432/shop")
	relay, err := config.ReadRelay(file, []byte(strings.ReplaceAll(settings.Data[filepath.Base(file)], secret, here)))
	require.NoError(t, err)
	require.Equal(t, here+"/dsn", relay.Database.DSNFile)

	// Budget and monitor select the pods of the deployment.
	for _, name := range []string{"poddisruptionbudget.yaml", "podmonitor.yaml"} {
		want, selector := all["deployment.yaml"].Spec.Selector, all[name].Spec.Selector
		var a, b any
		require.NoError(t, want.Decode(&a))
		require.NoError(t, selector.Decode(&b))
		require.Equal(t, a, b, name)
	}
	require.Contains(t, deployFile(t, dir+"/podmonitor.yaml"), "- port: "+c.Ports[0].Name+"\n")
}

func TestRelaySystemdUnit(t *testing.T) {
	unit := deployFile(t, "sloengine-relay.service")
	m := regexp.MustCompile(`(?m)^ExecStart=sloengine (.+)$`).FindStringSubmatch(unit)
	require.NotNil(t, m)
	c := parseRelay(t, strings.Fields(m[1]))
	require.True(t, strings.HasPrefix(c.Flag("web.listen-address").Value.String(), "127.0.0.1:"))
	require.Contains(t, unit, "\nLoadCredential=dsn:"+filepath.Dir(c.Flag("file").Value.String())+"/dsn\n")
	for _, line := range []string{"DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes",
		"CapabilityBoundingSet=", "KillSignal=SIGTERM"} {
		require.Contains(t, unit, "\n"+line+"\n")
	}
}

// The settings for other destinations are valid with the secrets that they name.
func TestRelayDestinations(t *testing.T) {
	for _, to := range []string{"rabbitmq", "http"} {
		text := deployFile(t, "relay-"+to+".yaml")
		here := t.TempDir() // the secret as it is mounted
		for _, m := range regexp.MustCompile(`--from-file=([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			e2etest.WriteFile(t, here, m[1], "postgres://relay@db.example.org:5432/shop")
		}
		relay, err := config.ReadRelay("relay.yaml", []byte(strings.ReplaceAll(text, "/etc/sloengine/database", here)))
		require.NoError(t, err)
		require.Equal(t, to, relay.Destination())
		o, err := relay.Settings()
		require.NoError(t, err)
		require.NotEmpty(t, o.DeadLetterTopic)
	}
}
