package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo/spec"
)

const deployDir = "../../deploy"

// manifest is any object of Kubernetes, as far as these tests look into one.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ServiceName string `yaml:"serviceName"`
		Selector    yaml.Node
		Ports       []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
		}
		Endpoints []struct {
			Port, Path    string
			HonorLabels   bool `yaml:"honorLabels"`
			Authorization struct {
				Credentials struct{ Name, Key string }
			}
		}
		Template struct {
			Spec struct {
				Grace    int `yaml:"terminationGracePeriodSeconds"`
				Security struct {
					NonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []struct {
					Args  []string
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					Liveness  probe `yaml:"livenessProbe"`
					Readiness probe `yaml:"readinessProbe"`
					Security  struct {
						ReadOnly bool  `yaml:"readOnlyRootFilesystem"`
						Escalate *bool `yaml:"allowPrivilegeEscalation"`
					} `yaml:"securityContext"`
					Mounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
					Secret    struct {
						Name string `yaml:"secretName"`
					}
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests reads those of a folder below deploy.
func manifests(t *testing.T, dir string) map[string]manifest {
	t.Helper()
	out := map[string]manifest{}
	files, err := filepath.Glob(filepath.Join(deployDir, dir, "*.yaml"))
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		var m manifest
		require.NoError(t, yaml.Unmarshal(data, &m), f)
		require.NotEmpty(t, m.Kind, f)
		out[filepath.Base(f)] = m
	}
	return out
}

func deployFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deployDir, name))
	require.NoError(t, err)
	return string(data)
}

// parseServe parses a command line of serve without running it.
func parseServe(t *testing.T, args []string) *cobra.Command {
	t.Helper()
	require.Equal(t, "serve", args[0])
	c := newServe(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	require.NoError(t, c.ParseFlags(args[1:]), args)
	require.Empty(t, c.Flags().Args(), args)
	require.Equal(t, "/var/lib/sloengine", c.Flag("data-dir").Value.String())
	require.True(t, c.Flag("file").Changed)
	return c
}

// testRouter is the HTTP side of a running engine.
func testRouter(t *testing.T) http.Handler {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan *url.URL, 1), make(chan error, 1)
	opt := app.Options{
		LoadSpec: cli.SpecFiles{"../../testdata/specs/insurance.yaml"}.Loader(nil), DataDir: t.TempDir(),
		LoadConfig: func() (config.Config, error) {
			return config.Default(), nil
		}, Log: slog.New(slog.DiscardHandler), Listen: "127.0.0.1:0",
		OnReady: func(_ context.Context, base *url.URL) error { ready <- base; return nil },
	}
	go func() { ended <- app.Run(ctx, opt) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case base := <-ready:
		return httputil.NewSingleHostReverseProxy(base)
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return nil
	}
}

func fetch(h http.Handler, path string) *httptest.ResponseRecorder {
	res := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Host = "localhost"
	h.ServeHTTP(res, req)
	return res
}

func TestKubernetesManifests(t *testing.T) {
	all := manifests(t, "kubernetes")
	var k struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, "kubernetes/kustomization.yaml")), &k))
	for name := range all {
		require.True(t, name == "kustomization.yaml" || slices.Contains(k.Resources, name),
			"%s is not in the kustomization", name)
	}
	require.Len(t, k.Resources, len(all)-1)

	set := all["statefulset.yaml"].Spec
	pod := set.Template.Spec
	require.True(t, pod.Security.NonRoot)
	require.GreaterOrEqual(t, pod.Grace, 60)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.True(t, c.Security.ReadOnly)
	require.False(t, *c.Security.Escalate)
	flags := parseServe(t, c.Args)
	require.True(t, strings.HasSuffix(flags.Flag("web.listen-address").Value.String(), ":8080"))
	require.Equal(t, 8080, c.Ports[0].ContainerPort)
	require.Equal(t, "http", c.Ports[0].Name)

	// Whatever is mounted exists, and holds what the flags name.
	mounts := map[string]string{}
	for _, m := range c.Mounts {
		mounts[m.MountPath] = m.Name
	}
	require.Equal(t, "data", mounts["/var/lib/sloengine"])
	maps := map[string]map[string]string{}
	for _, m := range all {
		if m.Kind == "ConfigMap" {
			maps[m.Metadata.Name] = m.Data
		}
	}
	secret := ""
	files := map[string]string{} // path in the container to content
	for _, v := range pod.Volumes {
		for path, name := range mounts {
			if name != v.Name {
				continue
			}
			if v.Secret.Name != "" {
				secret = v.Secret.Name
				continue
			}
			require.Contains(t, maps, v.ConfigMap.Name)
			for file, data := range maps[v.ConfigMap.Name] {
				files[path+"/"+file] = data
			}
		}
	}
	engine := flags.Flag("config").Value.String()
	require.Contains(t, files, engine)
	dir := t.TempDir()
	for path, data := range files {
		if filepath.Dir(path) == filepath.Dir(engine) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(data), 0o600))
		}
	}
	settings, err := config.Load(filepath.Join(dir, "engine.yaml"))
	require.NoError(t, err)
	tokens, err := os.ReadFile(settings.Auth.TokensFile)
	require.NoError(t, err)
	var keys []string
	parsed, err := ingest.ParseTokens("tokens.yaml", tokens, func(name string) ([]byte, error) {
		if filepath.Dir(name) != "/etc/sloengine/tokens" {
			return nil, fs.ErrNotExist
		}
		keys = append(keys, filepath.Base(name))
		return []byte(strings.Repeat(filepath.Base(name), 10)), nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, parsed.Len())

	specs := flags.Flag("file").Value.String()
	for path, data := range files {
		if strings.Contains(specs, filepath.Dir(path)) {
			_, problems := spec.Load([]spec.File{{Name: path, Data: []byte(data)}})
			require.NoError(t, problems.Err())
			require.Empty(t, problems)
		}
	}

	router := testRouter(t)
	monitor := all["servicemonitor.yaml"].Spec.Endpoints[0]
	for _, path := range []string{c.Liveness.HTTPGet.Path, c.Readiness.HTTPGet.Path, monitor.Path} {
		require.NotEmpty(t, path)
		require.NotEqual(t, http.StatusNotFound, fetch(router, path).Code, path)
	}
	require.Equal(t, "/-/healthy", c.Liveness.HTTPGet.Path)
	require.Equal(t, "/-/ready", c.Readiness.HTTPGet.Path)
	service := all["service.yaml"]
	require.Equal(t, service.Metadata.Name, set.ServiceName)
	require.Equal(t, monitor.Port, service.Spec.Ports[0].Name)
	require.Equal(t, c.Ports[0].Name, service.Spec.Ports[0].TargetPort)
	require.True(t, monitor.HonorLabels, "our label service must survive the operator's")
	require.Equal(t, secret, monitor.Authorization.Credentials.Name)
	require.Contains(t, keys, monitor.Authorization.Credentials.Key)
	for _, key := range keys {
		require.Contains(t, deployFile(t, "README.md"), "--from-literal="+key+"=")
	}
}

func TestSystemdUnit(t *testing.T) {
	unit := deployFile(t, "sloengine.service")
	m := regexp.MustCompile(`(?m)^ExecStart=sloengine (.+)$`).FindStringSubmatch(unit)
	require.NotNil(t, m)
	c := parseServe(t, strings.Fields(m[1]))
	require.Equal(t, "/etc/sloengine/engine.yaml", c.Flag("config").Value.String())
	require.True(t, strings.HasPrefix(c.Flag("web.listen-address").Value.String(), "127.0.0.1:"))
	for _, line := range []string{"DynamicUser=yes", "StateDirectory=sloengine", "ProtectSystem=strict",
		"NoNewPrivileges=yes", "CapabilityBoundingSet=", "KillSignal=SIGTERM"} {
		require.Contains(t, unit, "\n"+line+"\n")
	}
}

func TestDockerfile(t *testing.T) {
	text := deployFile(t, "Dockerfile")
	m := regexp.MustCompile(`(?m)^CMD \[(.+)\]$`).FindStringSubmatch(text)
	require.NotNil(t, m)
	var args []string
	require.NoError(t, yaml.Unmarshal([]byte("["+m[1]+"]"), &args))
	parseServe(t, args)
	require.Contains(t, text, "\nFROM scratch\n")
	require.Regexp(t, `(?m)^USER [1-9]\d*:[1-9]\d*$`, text)
	require.Contains(t, text, "CGO_ENABLED=0")
	require.Contains(t, text, "-X main.version=$VERSION -X main.commit=$COMMIT -X main.date=$DATE")
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	require.Contains(t, text, " golang:"+string(version[1])+" ")
}

// An engine without sinks, limits and Redis has every family that is not marked as absent there. Those of a report come
// with the first one.
func TestPlainEngineHasFamilies(t *testing.T) {
	res := fetch(testRouter(t), "/metrics")
	require.Equal(t, http.StatusOK, res.Code)
	for _, p := range metric.Parts() {
		for _, f := range p.Families {
			if f.Absent == "" && p.Title != "The Go client" && !slices.Contains(series.All(), f) {
				require.True(t, strings.Contains(res.Body.String(), "# TYPE "+f.Name+" "+string(f.Type)+"\n"), f.Name)
			}
		}
	}
}
