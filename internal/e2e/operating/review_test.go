package operating

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
)

// forge stands in for the comments of GitHub or GitLab, and for the releases that an action downloads.
type forge struct {
	t        *testing.T
	gitlab   bool
	refuse   bool // the token may not comment
	me       string
	comments []map[string]any
	releases map[string][]byte
	requests []string // that change something
}

func (f *forge) comment(author, body string) map[string]any {
	key, name := "user", "login"
	if f.gitlab {
		key, name = "author", "username"
	}
	return map[string]any{"id": len(f.comments) + 1, "body": body, key: map[string]string{name: author}}
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if data, found := f.releases[r.URL.Path]; found {
		_, _ = w.Write(data)
		return
	}
	header, list, one := "Bearer secret", "/repos/shop/specs/issues/7/comments", "/repos/shop/specs/issues/comments/"
	got, change := r.Header.Get("Authorization"), http.MethodPatch
	if f.gitlab {
		header, list = "secret", "/projects/12/merge_requests/7/notes"
		one, got, change = list+"/", r.Header.Get("PRIVATE-TOKEN"), http.MethodPut
	}
	var sent struct{ Body string }
	if r.Method != http.MethodGet {
		f.requests = append(f.requests, r.Method)
		if json.NewDecoder(r.Body).Decode(&sent) != nil || f.refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
	}
	id, found := strings.CutPrefix(r.URL.Path, one)
	switch n, _ := strconv.Atoi(id); {
	case got != header:
		w.WriteHeader(http.StatusUnauthorized)
	case f.gitlab && r.URL.Path == "/user":
		fmt.Fprintf(w, `{"username": %q}`, f.me)
	case r.URL.Path == list && r.Method == http.MethodGet:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		from := min((page-1)*100, len(f.comments))
		_ = json.NewEncoder(w).Encode(append([]map[string]any{}, f.comments[from:min(from+100, len(f.comments))]...))
	case r.URL.Path == list && r.Method == http.MethodPost:
		f.comments = append(f.comments, f.comment(f.me, sent.Body))
		w.WriteHeader(http.StatusCreated)
	case found && r.Method == change && n > 0 && n <= len(f.comments):
		f.comments[n-1]["body"] = sent.Body
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// last is the only comment of the review.
func (f *forge) last() string {
	f.t.Helper()
	var own []string
	key := map[bool]string{false: "user", true: "author"}[f.gitlab]
	for _, c := range f.comments {
		if author, _ := c[key].(map[string]string); author["login"]+author["username"] == f.me {
			own = append(own, c["body"].(string))
		}
	}
	require.Len(f.t, own, 1)
	return own[0]
}

// release is an archive with the program, as one of a release, and its checksum.
func (f *forge) release(version string) {
	var data bytes.Buffer
	packed := gzip.NewWriter(&data)
	out := tar.NewWriter(packed)
	review, err := os.ReadFile("../../../deploy/ci/review")
	require.NoError(f.t, err)
	for name, text := range map[string]string{
		"sloengine": "#!/bin/sh\nexec " + e2etest.Program() + ` "$@"` + "\n", "ci/review": string(review),
	} {
		require.NoError(f.t, out.WriteHeader(&tar.Header{Name: "sloengine_x/" + name, Mode: 0o755, Size: int64(len(text))}))
		_, err := out.Write([]byte(text))
		require.NoError(f.t, err)
	}
	require.NoError(f.t, out.Close())
	require.NoError(f.t, packed.Close())
	f.releases = map[string][]byte{}
	sums := ""
	for _, arch := range []string{"amd64", "arm64"} {
		name := "sloengine_" + version + "_linux_" + arch + ".tar.gz"
		f.releases["/releases/v"+version+"/"+name] = data.Bytes()
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(data.Bytes()), name)
	}
	f.releases["/releases/v"+version+"/checksums.txt"] = []byte(sums)
}

const reviewedSpec = `version: sloengine/v1
service: shop
slos:
  - name: checkout
    description: 'orders ~~~ that "go through" </details> @everybody'
    objective: 99.9
    window: 7d
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`

// repository is a clone of a repository with specs, on a branch that has changed nothing.
type repository struct {
	t         *testing.T
	dir, base string
}

func newRepository(t *testing.T) *repository {
	for _, need := range []string{"git", "jq", "curl", "promtool"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(need + " is not installed")
		}
	}
	origin := t.TempDir()
	r := &repository{t: t, dir: origin}
	r.git("init", "-q", "-b", "main")
	r.git("config", "uploadpack.allowAnySHA1InWant", "true") // as forges have it
	r.write(reviewedSpec)
	r.commit()
	r.base = r.git("rev-parse", "HEAD")
	r.dir = filepath.Join(t.TempDir(), "clone")
	r.git("clone", "-q", "file://"+origin, r.dir)
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	if args[0] != "clone" {
		cmd.Dir = r.dir
	}
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, string(out))
	return strings.TrimSpace(string(out))
}

func (r *repository) write(spec string) {
	require.NoError(r.t, os.MkdirAll(filepath.Join(r.dir, "specs"), 0o755))
	e2etest.WriteFile(r.t, filepath.Join(r.dir, "specs"), "shop.yaml", spec)
}

func (r *repository) commit() {
	r.git("add", "specs")
	r.git("commit", "-q", "-m", "specs")
}

// expand replaces the expressions of a template; one that is not known fails the test.
func expand(t *testing.T, form *regexp.Regexp, text string, values map[string]string) string {
	return form.ReplaceAllStringFunc(text, func(all string) string {
		name := form.FindStringSubmatch(all)[1]
		value, found := values[name]
		require.True(t, found, name)
		return value
	})
}

// bash runs a script in the repository as a runner does, and returns what it printed and its exit code.
func (r *repository) bash(script string, env []string) (string, int) {
	r.t.Helper()
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(r.t, err, new(*exec.ExitError))
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// action runs the steps of the GitHub Action.
func (r *repository) action(api string, given map[string]string) (string, int) {
	r.t.Helper()
	form := regexp.MustCompile(`\$\{\{ ([a-z._-]+) \}\}`)
	var action struct {
		Inputs map[string]struct {
			Default  string
			Required bool
		}
		Runs struct {
			Steps []struct {
				Shell, Run string
				Env        map[string]string
			}
		}
	}
	readYAML(r.t, "action.yml", &action)
	path, err := filepath.Abs("../../../deploy/ci")
	require.NoError(r.t, err)
	values := map[string]string{
		"github.base_ref": "main", "github.event.pull_request.number": "7", "github.action_path": path,
		"github.token": "secret",
	}
	for name, in := range action.Inputs {
		value, found := given[name]
		if !found {
			require.False(r.t, in.Required, name)
			value = expand(r.t, form, in.Default, values)
		}
		values["inputs."+name] = value
	}
	temp := r.t.TempDir()
	env := []string{
		"RUNNER_TEMP=" + temp, "GITHUB_PATH=" + filepath.Join(temp, "path"), "GITHUB_ACTIONS=true",
		"GITHUB_STEP_SUMMARY=" + filepath.Join(temp, "summary"), "GITHUB_API_URL=" + api, "GITHUB_REPOSITORY=shop/specs",
	}
	var out string
	var code int
	require.Len(r.t, action.Runs.Steps, 2)
	for _, step := range action.Runs.Steps {
		require.Equal(r.t, "bash", step.Shell)
		of := append([]string{}, env...)
		for name, value := range step.Env {
			of = append(of, name+"="+expand(r.t, form, value, values))
		}
		if added, err := os.ReadFile(filepath.Join(temp, "path")); err == nil {
			of = append(of, "PATH="+strings.TrimSpace(string(added))+":"+os.Getenv("PATH"))
		}
		if out, code = r.bash(step.Run, of); code != 0 {
			break
		}
	}
	return out, code
}

func readYAML(t *testing.T, name string, into ...any) {
	t.Helper()
	file, err := os.Open(filepath.Join("../../../deploy/ci", name))
	require.NoError(t, err)
	defer file.Close()
	d := yaml.NewDecoder(file)
	for _, v := range into {
		require.NoError(t, d.Decode(v))
	}
}

// The Action compares a pull request with its base, tests its rules, asks the engine, replays its log, and says so in
// one comment of its own, which later runs change.
func TestReviewOnGitHub(t *testing.T) {
	r := newRepository(t)
	f := &forge{t: t, me: "github-actions[bot]"}
	f.release("1.2.3")
	server := httptest.NewServer(f)
	defer server.Close()

	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", reviewedSpec),
		"log: {retain: 7d}\nevaluator: {interval: 1s}\n")
	for i := range 200 {
		outcome := map[bool]string{true: "failure", false: "success"}[i%4 == 0]
		body := fmt.Sprintf(`{"id":"%d","type":"order","service":"shop","time":%q,"outcome":%q}`,
			i, time.Now().UTC().Format(time.RFC3339), outcome)
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	e2etest.Reports(t, p, 3)

	f.comments = append(f.comments, f.comment("mallory", "<!-- sloengine-review: specs -->\n### mine"))
	for len(f.comments) < 150 { // the second page
		f.comments = append(f.comments, f.comment("alice", "looks good"))
	}
	given := map[string]string{
		"version": "1.2.3", "releases": server.URL + "/releases", "url": p.Base, "backtest-engine": "true", "since": "1h",
	}
	r.write(strings.NewReplacer("99.9", "99", "go through", "pass").Replace(reviewedSpec))
	out, code := r.action(server.URL, given)
	require.Zero(t, code, out)
	first := f.last()
	require.Equal(t, []string{"POST"}, f.requests)
	for _, want := range []string{
		"<!-- sloengine-review: specs -->\n### sloengine: `specs`\n", "✅ Check", "✏️ Changes: ", "objective", "✅ Rule tests",
		"SUCCESS", "✅ Running engine: all counts stay", "🕑 Backtest", "shop/checkout", "| ",
	} {
		require.Contains(t, first, want)
	}
	for line := range strings.Lines(first) { // a text of the spec stays in its block
		if strings.Contains(line, "everybody") {
			require.Regexp(t, `^    `, line)
		}
	}

	r.write(strings.Replace(reviewedSpec, "objective: 99.9", "objective: 199.9", 1))
	out, code = r.action(server.URL, given)
	require.Equal(t, 1, code, out)
	require.Equal(t, []string{"POST", "PATCH"}, f.requests)
	second := f.last()
	require.Contains(t, second, "❌ Check")
	require.Contains(t, second, "specs/shop.yaml:6")
	require.NotContains(t, second, "Backtest")

	r.write(reviewedSpec)
	given["url"], given["backtest-engine"] = "", ""
	out, code = r.action(server.URL, given)
	require.Zero(t, code, out)
	require.Contains(t, f.last(), "No SLO, agreement or alert differs")
	require.Len(t, f.comments, 151)

	// A token that may not comment fails nothing, and is not silent.
	f.refuse = true
	out, code = r.action(server.URL, given)
	require.Zero(t, code, out)
	require.Contains(t, out, "::warning::review: the comment was refused")

	// A link would put a file of the runner into the comment.
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(r.dir, "specs", "more.yaml")))
	out, code = r.action(server.URL, given)
	require.Equal(t, 1, code, out)
	require.NotContains(t, out, "root:")

	sums := "/releases/v1.2.3/checksums.txt"
	f.releases[sums] = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAll(f.releases[sums], bytes.Repeat([]byte("0"), 64))
	out, code = r.action(server.URL, given)
	require.NotZero(t, code)
	require.Contains(t, out, "FAILED")
}

// The template of GitLab does the same on a merge request.
func TestReviewOnGitLab(t *testing.T) {
	r := newRepository(t)
	f := &forge{t: t, gitlab: true, me: "project_12_bot"}
	f.release("1.2.3")
	server := httptest.NewServer(f)
	defer server.Close()
	var head struct {
		Spec struct {
			Inputs map[string]struct{ Default string }
		}
	}
	var jobs map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	readYAML(t, "gitlab.yml", &head, &jobs)
	values := map[string]string{}
	for name, in := range head.Spec.Inputs {
		values[name] = in.Default
	}
	values["version"], values["releases"] = "1.2.3", server.URL+"/releases"
	job := jobs["sloengine-review"]
	env := []string{
		"CI_API_V4_URL=" + server.URL, "CI_PROJECT_ID=12", "CI_MERGE_REQUEST_IID=7", "GITLAB_TOKEN=secret",
		"CI_MERGE_REQUEST_DIFF_BASE_SHA=" + r.base,
	}
	for name, value := range job.Variables {
		env = append(env, name+"="+expand(t, regexp.MustCompile(`\$\[\[ inputs\.([a-z-]+) \]\]`), value, values))
	}
	script := strings.Join(append(job.BeforeScript, job.Script...), "\n")
	for _, objective := range []string{"99", "99.5"} {
		r.write(strings.Replace(reviewedSpec, "99.9", objective, 1))
		out, code := r.bash(script, env)
		require.Zero(t, code, out)
		require.Contains(t, f.last(), objective+"%")
		require.Contains(t, f.last(), "✅ Rule tests")
	}
	require.Equal(t, []string{"POST", "PUT"}, f.requests)
}
