package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

var dlqNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// dlqServer is a real API over dead letters in memory.
type dlqServer struct {
	*dlq.Memory
	replayer *dlq.Replayer
	url      string
	taken    []string
	fails    func(id string) error
	before   func(*http.Request) // sees every request
}

func (s *dlqServer) Replay(ctx context.Context, q dlq.Query, dryRun bool) (dlq.ReplayResult, error) {
	return s.replayer.Replay(ctx, q, dryRun)
}

func (s *dlqServer) ReplayIDs(ctx context.Context, ids []string, dryRun bool) (dlq.ReplayResult, error) {
	return s.replayer.ReplayIDs(ctx, ids, dryRun)
}

func (s *dlqServer) DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error) {
	return dlq.DiscardMatching(ctx, s.Memory, q, dryRun)
}

func (s *dlqServer) Purge(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	if dryRun {
		return dlq.DiscardMatching(ctx, s.Memory, dlq.Query{To: before}, true)
	}
	return s.Memory.Purge(ctx, before)
}

func newDLQServer(t *testing.T, entries ...dlq.Entry) *dlqServer {
	now := func() time.Time { return dlqNoon }
	s := &dlqServer{}
	var err error
	s.Memory, err = dlq.NewMemory(dlq.MemoryOptions{Now: now})
	require.NoError(t, err)
	require.NoError(t, s.Save(context.Background(), entries))
	take := func(_ context.Context, entries []dlq.Entry) []error {
		errs := make([]error, len(entries))
		for i, e := range entries {
			if s.fails != nil {
				errs[i] = s.fails(e.ID)
			}
			if errs[i] == nil {
				s.taken = append(s.taken, e.ID)
			}
		}
		return errs
	}
	s.replayer, err = dlq.NewReplayer(
		dlq.ReplayOptions{Store: s.Memory, Rate: 1e6, Targets: map[dlq.Origin]dlq.Target{dlq.Sink: take}, Now: now})
	require.NoError(t, err)
	w, err := web.New(site.Options{
		Numbers: site.Numbers{Report: func() *sla.Report { return nil }},
		Condition: site.Condition{Engine: func() status.Engine {
			return status.Engine{State: status.Ready}
		}}, Now: now, DLQ: s,
	})
	require.NoError(t, err)
	gin.SetMode(gin.TestMode)
	router := gin.New()
	w.Register(router)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.before != nil {
			s.before(r)
		}
		router.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ofSink are n dead letters of the sink w, a minute apart, oldest first.
func ofSink(n int) (entries []dlq.Entry) {
	for i := range n {
		entries = append(entries, dlq.Entry{
			ID: fmt.Sprintf("sink-w-%04d-0", i), Origin: dlq.Sink, Sink: "w", Reason: "rejected", Class: "permanent",
			Attempts: 4, Service: "shop", Type: "order",
			Saved: dlqNoon.Add(time.Duration(i-n) * time.Minute), Seq: uint64(i + 1),
			Event: json.RawMessage(fmt.Sprintf(`{"service":"shop","type":"order","n":%d}`, i)),
		})
	}
	return entries
}

// execute runs a command of this package as sloengine would.
func execute(s cli.Streams, args ...string) (code int) {
	root := &cobra.Command{Use: "sloengine"}
	root.AddCommand(Commands(s)...)
	return cli.Execute(context.Background(), root, s, args)
}

// dlq runs a command and returns what it says.
func (s *dlqServer) dlq(t *testing.T, code int, args ...string) (out, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	got := execute(cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e},
		append([]string{"dlq"}, append(args, "--url", s.url)...)...)
	require.Equal(t, code, got, "%v\n%s\n%s", args, o.String(), e.String())
	return o.String(), e.String()
}

func (s *dlqServer) left(t *testing.T) int64 {
	stats, err := s.Stats(context.Background())
	require.NoError(t, err)
	return stats.Count
}

func TestDLQList(t *testing.T) {
	entries := append(ofSink(450), dlq.Entry{ID: "fold-9-1", Origin: dlq.Fold, Reason: "odd\tone\x1b[31m", Saved: dlqNoon,
		Seq: 9, Index: 1, Raw: []byte("\x1b[2Jraw")})
	s := newDLQServer(t, entries...)
	requests := 0
	s.before = func(*http.Request) { requests++ }

	out, note := s.dlq(t, cli.ExitOK, "list", "--limit", "2")
	require.Equal(t,
		`ID             SAVED                 ORIGIN  SINK  REASON            CLASS      TRIES  SERVICE  TYPE   SEVERITY
fold-9-1       2026-11-20 12:00:00Z  fold    -     odd\tone\x1b[31m  -          0      -        -      -
sink-w-0449-0  2026-11-20 11:59:00Z  sink    w     rejected          permanent  4      shop     order  -
`, out)
	require.Contains(t, note, "there are more: list them with --all, or continue with --cursor ")
	cursor := strings.TrimSpace(note[strings.Index(note, "--cursor ")+9:])
	out, _ = s.dlq(t, cli.ExitOK, "list", "--limit", "1", "--cursor", cursor, "-o", "json")
	var list []dlq.Entry
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 1)
	require.Equal(t, "sink-w-0448-0", list[0].ID)

	requests = 0
	out, note = s.dlq(t, cli.ExitOK, "list", "--all", "--order", "oldest", "--sink", "w", "-o", "json")
	list = nil
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 450)
	require.Equal(t, "sink-w-0000-0", list[0].ID)
	require.JSONEq(t, `{"service":"shop","type":"order","n":449}`, string(list[449].Event))
	require.Equal(t, 3, requests, "pages of 200")
	require.Empty(t, note)

	out, _ = s.dlq(t, cli.ExitOK, "list", "--limit", "250", "-o", "yaml")
	var same []map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(out), &same))
	require.Len(t, same, 250)
	require.Equal(t, "odd\tone\x1b[31m", same[0]["reason"])
	require.Equal(t, 449, same[1]["event"].(map[string]any)["n"])
	require.NotContains(t, out, "\x1b")

	out, _ = s.dlq(t, cli.ExitOK, "list", "--from", "2026-11-20T11:58:00Z", "--to", "2026-11-20T15:00:00+03:00")
	require.Equal(t, 3, strings.Count(out, "\n"), out)
	for _, empty := range []struct{ output, want string }{{"table", ""}, {"json", "[]\n"}, {"yaml", "[]\n"}} {
		out, note = s.dlq(t, cli.ExitOK, "list", "--sink", "nowhere", "-o", empty.output)
		require.Equal(t, empty.want, out)
		require.Equal(t, empty.output == "table", note == "no dead letters match\n", note)
	}
}

func TestDLQShowAndStats(t *testing.T) {
	s := newDLQServer(t, append(ofSink(2), dlq.Entry{
		ID: "sink-w-7~9", Origin: dlq.Sink, Sink: "w", Reason: "lag", Saved: dlqNoon, Seq: 7, SeqEnd: 9,
	}, dlq.Entry{
		ID: "odd", Origin: dlq.Admission, Reason: "rate_limited", Error: "over\nthe limit", First: dlqNoon, Saved: dlqNoon,
		Event: json.RawMessage("{\"service\":\"\u202eevil\u009b31m\",\"n\":\"\U000e0001\"}"),
	})...)
	out, _ := s.dlq(t, cli.ExitOK, "show", "sink-w-0001-0")
	require.Equal(t, `id        sink-w-0001-0
origin    sink
sink      w
reason    rejected
class     permanent
attempts  4
saved     2026-11-20 11:59:00Z
log       record 2, event 0
service   shop
type      order
event
{
  "service": "shop",
  "type": "order",
  "n": 1
}
`, out)
	out, _ = s.dlq(t, cli.ExitOK, "show", "sink-w-7~9")
	require.Contains(t, out, "records 7 to 9")
	for _, output := range []string{"table", "json"} {
		out, _ = s.dlq(t, cli.ExitOK, "show", "odd", "-o", output)
		require.Contains(t, out, `over\nthe limit`)
		require.Contains(t, out, `\u202eevil\u009b31m`)
		require.NotContains(t, out, "\u202e")
		if output == "json" {
			var e dlq.Entry
			require.NoError(t, json.Unmarshal([]byte(out), &e))
			require.JSONEq(t, "{\"service\":\"\u202eevil\u009b31m\",\"n\":\"\U000e0001\"}", string(e.Event))
		}
	}

	_, stderr := s.dlq(t, cli.ExitFailure, "show", "none")
	require.Contains(t, stderr, "404 Not Found: There is no dead letter with this id")

	out, _ = s.dlq(t, cli.ExitOK, "stats")
	require.Contains(t, out, "storage              memory\ndead letters         4\n")
	require.Contains(t, out,
		"oldest               2026-11-20 11:58:00Z\nnewest               2026-11-20 12:00:00Z\norigin admission     1\n"+
			"origin sink          3\nreason lag           1\nreason rate_limited  1\nreason rejected      2\n"+
			"sink w               3\n")
	out, _ = s.dlq(t, cli.ExitOK, "stats", "-o", "yaml")
	var stats struct {
		Count    int
		ByOrigin map[string]int `yaml:"by_origin"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(out), &stats))
	require.Equal(t, 4, stats.Count)
	require.Equal(t, map[string]int{"admission": 1, "sink": 3}, stats.ByOrigin)
	require.True(t, strings.HasPrefix(out, "backend: memory\n"), "in the order of the API")
}

func TestDLQReplay(t *testing.T) {
	s := newDLQServer(t, append(
		ofSink(700), dlq.Entry{ID: "fold-1-1", Origin: dlq.Fold, Reason: "odd", Saved: dlqNoon, Seq: 1, Index: 1})...)
	out, _ := s.dlq(t, cli.ExitOK, "replay", "--sink", "w", "--dry-run")
	require.Equal(t, "dry run: nothing was changed\nwould be replayed  700\n", out)
	require.Empty(t, s.taken)

	// Many ids go out in several requests, in the order given, each once.
	var bodies []int64
	s.before = func(r *http.Request) { bodies = append(bodies, r.ContentLength) }
	args := []string{"replay"}
	for i := 649; i >= 0; i-- {
		args = append(args, fmt.Sprintf("sink-w-%04d-0", i))
	}
	out, _ = s.dlq(t, cli.ExitOK, append(args, args[1:10]...)...)
	require.Equal(t, "replayed  650\n", out)
	require.Len(t, bodies, 3)
	require.Equal(t, "sink-w-0649-0", s.taken[0])
	require.Equal(t, int64(51), s.left(t))

	s.fails = func(id string) error {
		if strings.HasSuffix(id, "5-0") {
			return errors.New("still\x1b[31m away")
		}
		return nil
	}
	out, stderr := s.dlq(t, cli.ExitFindings, "replay", "--from", "2026-11-20T11:00:00Z", "--origin", "sink")
	require.Equal(t, "replayed      45\nfailed again  5\n", out)
	require.Contains(t, stderr, `sloengine: sink-w-0655-0: still\x1b[31m away`)
	require.NotContains(t, stderr, "sloengine: findings")
	s.fails = nil
	out, _ = s.dlq(t, cli.ExitFindings, "replay", "--all", "-o", "json")
	require.JSONEq(
		t, `{"dry_run":false,"matched":6,"replayed":5,"failed":0,"too_old":0,"no_target":1,"not_found":0,"held_back":0}`, out)
	out, stderr = s.dlq(t, cli.ExitFindings, "replay", "sink-w-0001-0")
	require.Contains(t, out, "not found  1")
	require.Contains(t, stderr, "no such dead letter")
	require.Len(t, s.taken, 700)
}

func TestDLQDiscardAndPurge(t *testing.T) {
	s := newDLQServer(t, ofSink(100)...)
	for _, step := range []struct {
		args []string
		want string
		left int64
	}{
		{[]string{"discard", "sink-w-0001-0", "none", "--dry-run"}, "dry run: would discard 1, 1 not found\n", 100},
		{[]string{"discard", "sink-w-0001-0", "none"}, "discarded 1, 1 not found\n", 99},
		{[]string{"discard", "--reason", "rejected", "--to", "2026-11-20T10:30:00Z", "--dry-run"},
			"dry run: would discard 9\n", 99},
		{[]string{"discard", "--reason", "rejected", "--to", "2026-11-20T10:30:00Z", "-o", "json"},
			"{\n  \"dry_run\": false,\n  \"discarded\": 9,\n  \"not_found\": 0\n}\n", 90},
		{[]string{"purge", "--older-than", "1h", "--dry-run"},
			"dry run: would purge 30, saved before 2026-11-20T11:00:00Z\n", 90},
		{[]string{"purge", "--before", "2026-11-20T14:00:00+03:00"}, "purged 30, saved before 2026-11-20T11:00:00Z\n", 60},
		{[]string{"discard", "--all", "-o", "yaml"}, "dry_run: false\ndiscarded: 60\nnot_found: 0\n", 0},
	} {
		out, stderr := s.dlq(t, cli.ExitOK, step.args...)
		require.Equal(t, step.want, out, "%v", step.args)
		require.Empty(t, stderr)
		require.Equal(t, step.left, s.left(t), "%v", step.args)
	}
	_, stderr := s.dlq(t, cli.ExitFailure, "purge", "--before", "2027-11-20T14:00:00Z")
	require.Contains(t, stderr, "400 Bad Request: body: before: must not be in the future")
}

func TestDLQUsage(t *testing.T) {
	s := newDLQServer(t, ofSink(3)...)
	s.before = func(r *http.Request) { t.Errorf("%s %s was asked", r.Method, r.URL) }
	for _, tc := range []struct{ args, want string }{
		{"nosuch", `unknown argument "nosuch" for 'sloengine dlq'`}, {"list x", `unknown argument "x"`},
		{"list --limit 0", "--limit 0"}, {"list --all --limit 5", "--all and --limit exclude each other"},
		{"list --order up", `invalid argument "up" for "--order"`},
		{"list --from yesterday", `invalid --from "yesterday"`}, {"list --from 0", `invalid --from "0"`},
		{"list --origin sinks", `invalid --origin "sinks"`}, {"list --sink=", "--sink is empty"},
		{"list -o xml", `invalid argument "xml" for "-o, --output" flag: want table, json or yaml`},
		{"list --nosuch", "unknown flag"},
		{"show", "takes exactly one ID"}, {"show a b", "takes exactly one ID"}, {"show a/b", "invalid dead-letter id"},
		{"show ..", "invalid dead-letter id"}, {"stats x", "unknown argument"},
		{"replay", "either ids, or filters such as --sink, or --all"}, {"discard", "either ids, or filters"},
		{"replay --dry-run", "either ids"}, {"replay --all a", "either ids"}, {"replay --all --sink w", "either ids"},
		{"discard a --sink w", "either ids"}, {"discard --sink=", "--sink is empty"},
		{"discard --to never", `invalid --to "never"`}, {"replay a/../b", "invalid dead-letter id"},
		{"purge", "set either --older-than or --before"},
		{"purge --older-than 7d --before 2026-11-20T11:00:00Z", "set either --older-than or --before"},
		{"purge --older-than week", "--older-than"}, {"purge --older-than 0s", "--older-than"},
		{"purge --before noon", "--before"},
		{"purge x --older-than 7d", "unknown argument"},
	} {
		out, stderr := s.dlq(t, cli.ExitUsage, strings.Fields(tc.args)...)
		require.Contains(t, stderr, tc.want, tc.args)
		require.Empty(t, out, tc.args)
	}
	require.Equal(t, int64(3), s.left(t))
	var o, e bytes.Buffer
	for _, address := range []string{"nonsense", "ftp://x", "http://"} {
		require.Equal(t, cli.ExitUsage, execute(cli.Streams{Out: &o, Err: &e}, "dlq", "stats", "--url", address), address)
	}
	for _, name := range []string{"", "list", "show", "stats", "replay", "discard", "purge"} {
		o.Reset()
		require.Equal(t, cli.ExitOK, execute(cli.Streams{Out: &o, Err: &e},
			append([]string{"dlq"}, strings.Fields(name+" --help")...)...), name)
		require.Contains(t, o.String(), "Examples:", name)
		require.Contains(t, o.String(), "sloengine dlq "+name)
	}
}

func TestDLQTellsWhatTheServerSays(t *testing.T) {
	t.Setenv("SLOENGINE_TOKEN", "")
	var asked *http.Request
	status, typ, answer := http.StatusForbidden, "application/problem+json",
		`{"title":"Forbidden","detail":"the token may not \u001b[31moperate"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", typ)
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	s := &dlqServer{url: server.URL + "/prefix/"}
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	_, stderr := s.dlq(t, cli.ExitFailure, "replay", "--all", "--token-file", token)
	require.Contains(t, stderr,
		`responded with 403 Forbidden: the token may not \x1b[31moperate; the token is that of --token-file, file `+token)
	require.NotContains(t, stderr, "secret")
	require.Equal(t, "Bearer secret", asked.Header.Get("Authorization"))
	require.Equal(t, "application/json", asked.Header.Get("Content-Type"))
	require.Equal(t, "/prefix/api/v1/dlq/replay", asked.URL.Path)

	for _, command := range []string{"list", "stats", "show x", "discard x", "purge --older-than 1d"} {
		out, stderr := s.dlq(t, cli.ExitFailure, strings.Fields(command+" -o json")...)
		require.Contains(t, stderr, "403 Forbidden")
		require.Empty(t, out, "nothing that could be taken for an answer")
	}
	status, typ, answer = 502, "text/html", "<h1>Bad gateway</h1>"
	_, stderr = s.dlq(t, cli.ExitFailure, "stats")
	require.Contains(t, stderr, "502 Bad Gateway: no details given")
	status, answer = 200, "<h1>Welcome</h1>"
	_, stderr = s.dlq(t, cli.ExitFailure, "list")
	require.Contains(t, stderr, "read response of /prefix/api/v1/dlq")
	server.Close()
	_, stderr = s.dlq(t, cli.ExitFailure, "stats")
	require.Contains(t, stderr, "engine not reachable (--url):")
}

// A redirected POST would become a GET, whose 200 looks like success.
func TestRedirectsAreRefused(t *testing.T) {
	t.Setenv("SLOENGINE_TOKEN", "")
	for _, status := range []int{301, 302, 303, 307, 308} {
		followed := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				followed++
				fmt.Fprint(w, `{"items":[]}`)
				return
			}
			http.Redirect(w, r, "/login", status)
		}))
		for _, args := range [][]string{
			{"silence", "add", `service="shop"`, "--for", "1h", "--comment", "c", "--author", "a"}, {"silence", "list"},
			{"dlq", "list"}, {"dlq", "replay", "--all"}, {"status"},
		} {
			var o, e bytes.Buffer
			code := execute(cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e}, append(args, "--url", server.URL)...)
			require.Equal(t, cli.ExitFailure, code, "%v\n%s\n%s", args, o.String(), e.String())
			require.Contains(t, e.String(),
				fmt.Sprintf(`responded with %d %s: redirected to "/login" (set --url to the address behind it)`, status,
					http.StatusText(status)), "%v", args)
			require.Empty(t, o.String())
		}
		require.Zero(t, followed)
		server.Close()
	}
}
