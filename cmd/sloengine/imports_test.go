package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sloengine/sloengine/"

// leaves are packages that every package may import: a metric is named in one place, a field of a
// binary form is read in one, and a sort is compiled once.
var leaves = []string{"reliability/metric", "internal/binread", "internal/every", "internal/order"}

// mayImport are the packages of this module that each package may import. A pattern
// ends in /* for every package below. "all" is for cmd only. Test files may also import testsMayImport.
var mayImport = map[string][]string{
	"slo":                         {},
	"ingest/event":                {"ingest/jsonescape", "ingest/trace", "slo/suggest"},
	"rules/series":                {},
	"slo/suggest":                 {},
	"slo/yamldoc":                 {"slo/suggest", "slo/yamldoc/shape"},
	"slo/yamldoc/shape":           {},
	"slo/yamldoc/shape/shapetest": {"slo/yamldoc/shape"},
	"slo/yamlgen":                 {},
	"slo/zonetest":                {},
	"slo/spec": {"rules/series", "slo", "sla", "slo/suggest", "slo/yamldoc", "slo/yamldoc/shape",
		"slo/yamlgen", "reliability/fsys"},
	"slo/inflight":  {},
	"slo/traces":    {"slo"},
	"slo/fold":      {"slo", "slo/inflight", "ingest/event"},
	"sla":           {"slo", "sla/forecast"},
	"sla/evaluator": {"slo", "slo/fold", "sla", "reliability/health"},
	"sla/fleet": {"slo", "slo/fold", "slo/traces", "sla/annotation", "sla/evaluator",
		"reliability/remote"},
	"sla/annotation": {"slo", "reliability/fsys"},
	"sla/forecast":   {"slo"},
	"sla/history":    {"slo", "slo/fold", "sla"},
	"sla/outlook": {"slo", "slo/fold", "sla", "sla/forecast", "sla/history", "reliability/fsys",
		"reliability/health"},
	"sla/report":      {"slo", "slo/fold", "sla", "sla/annotation", "sla/forecast", "sla/history"},
	"sla/delivery":    {"slo", "sla/report", "reliability/*"},
	"rules":           {"slo", "sla", "slo/yamlgen", "rules/series"},
	"rules/explain":   {"slo", "sla", "rules", "rules/series"},
	"rules/rulestest": {"rules"},
	"alerts":          {"slo", "sla", "slo/yamlgen", "rules", "rules/series"},
	"alerts/backtest": {"alerts", "alerts/incident", "alerts/state", "ingest/*", "reliability/*", "sla", "sla/evaluator",
		"sla/forecast", "sla/outlook", "slo", "slo/fold", "slo/spec"},
	"alerts/blindspot":         {"slo", "alerts", "rules"},
	"alerts/state":             {"slo", "sla", "alerts", "rules", "rules/series"},
	"alerts/incident":          {"slo", "sla"},
	"alerts/silence":           {},
	"alerts/own":               {"alerts", "alerts/state", "reliability/health"},
	"alerts/notify":            {"alerts", "alerts/state", "ingest/event", "reliability/*"},
	"alerts/notify/notifytest": {"reliability/nettest"},
	"alerts/receivers":         {"alerts", "alerts/*", "rules/series", "slo/yamldoc", "reliability/*"},
	"alerts/alertmanager": {"slo", "sla", "alerts", "rules", "rules/series", "slo/yamldoc",
		"slo/yamldoc/shape", "slo/yamlgen"},
	"dashboards":                {"slo", "slo/yamlgen", "rules", "rules/series"},
	"internal/binread":          {},
	"internal/every":            {},
	"internal/order":            {},
	"reliability/metric":        {},
	"reliability/fsys":          {},
	"reliability/health":        {},
	"reliability/fsys/fsystest": {"reliability/fsys"},
	"reliability/wal":           {"reliability/fsys"},
	"reliability/retained":      {"reliability/fsys", "reliability/health", "reliability/wal"},
	"ingest/servicebudget":      {"ingest/event"},
	"reliability/audit":         {"reliability/fsys", "reliability/health"},
	"reliability/backup":        {"reliability/fsys"},
	"reliability/retry":         {},
	"reliability/breaker":       {"reliability/retry"},
	"reliability/connlimit":     {},
	"reliability/secretfile":    {"reliability/fsys"},
	"reliability/remote":        {"reliability/retry"},
	"reliability/mail":          {"reliability/remote", "reliability/retry"},
	"reliability/subscription":  {"reliability/*"},
	"reliability/mail/mailtest": {},
	"reliability/nettest":       {"internal/testkit"},
	"reliability/outbox":        {},
	"reliability/kafkaclient":   {"reliability/remote", "reliability/retry", "reliability/secretfile"},
	"reliability/amqpclient":    {"reliability/remote", "reliability/retry", "reliability/secretfile"},
	"reliability/postgres":      {"reliability/remote", "reliability/retry", "reliability/secretfile"},
	"reliability/bulkhead":      {"reliability/retry"},
	"reliability/remotewrite":   {"reliability/fsys", "reliability/health", "reliability/remote", "reliability/retry"},
	"reliability/deadline":      {"reliability/retry"},
	"reliability/dispatch":      {"reliability/*"},
	"reliability/expression":    {"reliability/pattern"},
	"reliability/pattern":       {},
	"reliability/dlq": {"reliability/fsys", "reliability/expression", "reliability/pattern", "reliability/redisconn",
		"reliability/wal"},
	"reliability/dlq/dlqtest": {"reliability/dlq", "reliability/nettest", "reliability/redisconn"},
	"reliability/ratelimit":   {"reliability/pattern"},
	"reliability/redisconn":   {"reliability/retry"},
	"reliability/ratelimit/shared": {"reliability/ratelimit", "reliability/breaker", "reliability/dispatch",
		"reliability/redisconn", "reliability/retry"},
	"ingest/sink":    {"ingest/event", "ingest/parquet", "reliability/*"},
	"ingest/parquet": {"ingest/event", "reliability/fsys"},
	"ingest": {"ingest/counter", "ingest/deadletter", "ingest/event", "ingest/engine", "ingest/mapping",
		"ingest/otlp", "ingest/otlp/otlpwire", "ingest/rejects", "ingest/servicebudget", "ingest/source/series",
		"ingest/trace",
		"reliability/*", "slo/yamldoc"},
	"ingest/engine": {"ingest/checkpoint", "ingest/deadletter", "ingest/dedup",
		"ingest/event", "ingest/position", "ingest/record", "ingest/trace", "reliability/*"},
	"ingest/counting":      {"alerts/incident", "ingest/*", "reliability/*", "sla/evaluator", "slo", "slo/*"},
	"ingest/checkpoint":    {"ingest/dedup", "reliability/*"},
	"ingest/record":        {"ingest/event", "reliability/*"},
	"ingest/deadletter":    {"ingest/event", "reliability/*"},
	"ingest/trace":         {},
	"ingest/jsonescape":    {},
	"ingest/position":      {},
	"ingest/counter":       {},
	"ingest/dedup":         {},
	"ingest/source/series": {"ingest/counter", "ingest/engine", "ingest/event", "ingest/source", "reliability/*"},
	"ingest/mapping":       {"ingest/event", "reliability/expression"},
	"ingest/redact":        {"ingest/event", "reliability/pattern"},
	"ingest/rejects":       {"ingest/event", "reliability/*"},
	"ingest/source": {"ingest/deadletter", "ingest/engine", "ingest/event", "ingest/mapping",
		"ingest/record", "reliability/*"},
	"ingest/source/kafka": {"ingest/engine", "ingest/position", "ingest/source", "reliability/*"},
	"ingest/source/sourcetest": {"ingest/engine", "ingest/event", "ingest/position", "ingest/record", "internal/testkit",
		"reliability/dlq", "reliability/wal"},
	"ingest/source/outbox": {"ingest/engine", "ingest/position", "ingest/source", "reliability/*"},
	"ingest/source/rabbitmq": {"ingest/engine", "ingest/event", "ingest/mapping", "ingest/source",
		"ingest/source/rabbitmq/rabbitmqtest", "reliability/*"},
	"client":        {"client/post", "ingest/event", "reliability/*"},
	"client/outbox": {"reliability/outbox"},
	"client/post":   {"ingest/event", "reliability/*"},
	"web": {"alerts/backtest", "alerts/incident", "alerts/notify", "alerts/silence", "alerts/state", "ingest/counting",
		"reliability/dlq", "reliability/subscription", "rules/series", "sla", "sla/forecast", "sla/report", "slo",
		"slo/fold", "slo/spec", "slo/traces", "web/*"},
	"web/chart": {"slo", "slo/fold", "sla", "sla/forecast", "sla/history", "sla/report", "alerts", "alerts/state",
		"rules/series", "web/format"},
	"web/collector": {"slo", "slo/traces", "sla", "sla/forecast", "alerts/incident", "alerts/state", "rules/series",
		"web/format", "web/respond"},
	"web/format":  {"slo", "sla/forecast"},
	"web/respond": {"slo/spec"},
	"web/api/v1":  {"slo", "sla", "sla/forecast"},
	"web/api": {"alerts/backtest", "slo", "slo/fold", "sla", "sla/forecast", "sla/history", "sla/report", "slo/spec",
		"slo/traces", "alerts/incident", "alerts/state", "reliability/dlq", "ingest/counting", "web/*"},
	"web/incidents":   {"slo", "slo/fold", "sla", "sla/history", "alerts/incident", "alerts/state", "web/*"},
	"web/markdown":    {"web/format"},
	"web/deadletters": {"slo", "reliability/dlq", "web/*"},
	"web/public": {"slo", "slo/fold", "sla", "sla/history", "alerts/incident", "reliability/subscription",
		"web/*"},
	"web/overview": {"slo", "sla", "alerts/incident", "alerts/state", "web/*"},
	"web/site": {"alerts/backtest", "slo", "slo/spec", "sla", "sla/annotation", "sla/history", "sla/report",
		"alerts/state", "alerts/incident", "alerts/notify", "alerts/silence", "reliability/dlq", "reliability/subscription",
		"slo/fold", "slo/traces", "ingest/counting", "web/*"},
	"web/alertpage":   {"alerts/backtest", "slo", "slo/spec", "sla", "alerts", "alerts/incident", "alerts/state", "web/*"},
	"web/annotations": {"slo", "sla/annotation", "web/*"},
	"web/silences":    {"slo", "rules/series", "alerts/silence", "alerts/state", "web/*"},
	"web/status": {"slo", "slo/spec", "alerts/notify", "ingest/counting", "ingest/otlp", "ingest/rejects", "ingest/source",
		"ingest/servicebudget", "reliability/*", "sla/delivery", "web/format"},
	"web/ui": {"slo", "slo/spec", "slo/fold", "slo/traces", "sla", "sla/forecast", "sla/history", "sla/report",
		"rules", "alerts", "alerts/blindspot", "alerts/incident", "alerts/state", "ingest/counting", "web/*"},
	"cmd/sloengine":     {"all"},
	"cmd/sloengine/app": {"all"},
	"cmd/sloengine/app/admission": {"cmd/sloengine/app/config", "ingest/event", "ingest/redact",
		"reliability/*", "web/respond"},
	"cmd/sloengine/app/reports": {"alerts/incident", "cmd/sloengine/app/config", "ingest/counting", "ingest/engine",
		"ingest/position", "ingest/record", "reliability/*", "sla", "sla/annotation", "sla/delivery", "sla/evaluator",
		"sla/report", "slo", "slo/fold", "slo/spec", "web/*"},
	"cmd/sloengine/app/sources": {"alerts/incident", "alerts/state", "cmd/sloengine/app/config", "ingest/*",
		"reliability/*", "rules/series", "slo", "slo/fold", "web/status"},
	"cmd/sloengine/backtest": {"alerts/backtest", "cmd/sloengine/cli", "cmd/sloengine/app/config",
		"ingest/engine", "reliability/fsys", "reliability/retained", "slo", "slo/spec", "web/api"},
	"cmd/sloengine/brokers": {"ingest/counting", "cmd/sloengine/cli", "cmd/sloengine/app/config",
		"ingest/source/rabbitmq", "reliability/*", "sla/evaluator", "slo"},
	"cmd/sloengine/cli": {"rules", "slo/spec", "reliability/fsys", "slo/yamldoc"},
	"cmd/sloengine/app/config": {"slo", "slo/suggest", "slo/yamldoc", "slo/yamldoc/shape", "rules", "alerts",
		"alerts/*", "ingest", "ingest/*", "reliability/*", "sla/delivery", "sla/report", "web/site"},
	"cmd/sloengine/demo": {"ingest/event"},
	"cmd/sloengine/remote": {"alerts/*", "cmd/sloengine/app", "cmd/sloengine/app/*", "cmd/sloengine/cli",
		"cmd/sloengine/promapi",
		"ingest/event", "reliability/*", "sla/annotation", "sla/history", "sla/report", "slo", "ingest/counting", "web/*"},
	"cmd/sloengine/send": {"client/post", "ingest/event", "ingest/mapping", "reliability/retry", "web/format"},

	// Names too long for the block above, which would be aligned again.
	"cmd/sloengine/promapi":               {"ingest/otlp", "ingest/source/series", "reliability/*", "slo/*"},
	"ingest/otlp":                         {"ingest/counter", "ingest/event", "ingest/otlp/otlpwire"},
	"ingest/otlp/otlpwire":                {"ingest/jsonescape"},
	"reliability/outbox/relay":            {"reliability/*"},
	"reliability/kafkaclient/topics":      {},
	"ingest/source/kafka/kafkatest":       {"internal/testkit", "reliability/nettest"},
	"ingest/source/rabbitmq/rabbitmqtest": {"internal/testkit", "reliability/nettest"},
	"reliability/postgres/postgrestest":   {"internal/testkit", "reliability/nettest"},

	"internal/e2e/alerting":     {},
	"internal/e2e/bench":        {},
	"internal/e2e/brokers":      {},
	"internal/e2e/e2etest":      {"internal/testkit", "rules/series", "web/incidents"},
	"internal/e2e/faults":       {},
	"internal/e2e/operating":    {},
	"internal/e2e/otlp":         {},
	"internal/e2e/web":          {},
	"internal/oracle":           {}, // tests only
	"internal/testkit":          {},
	"internal/testkit/chromium": {"internal/testkit", "reliability/nettest"},
	"internal/testkit/pastlog": {"ingest/counting", "ingest/engine", "ingest/event", "ingest/record", "reliability/fsys",
		"reliability/wal", "sla/evaluator", "slo/spec"},
	"internal/testkit/slotest":  {"slo"},
	"internal/testkit/spectest": {"rules", "slo/spec", "testdata/specs"},
}

// testsMayImport are the packages that tests may import in addition to internal/testkit. Packages whose tests run the
// whole chain may import all.
var testsMayImport = map[string][]string{
	"reliability/fsys": {"reliability/fsys/fsystest"},

	"reliability/audit":    {"reliability/fsys/fsystest"},
	"reliability/wal":      {"reliability/fsys/fsystest"},
	"reliability/retained": {"reliability/fsys/fsystest"},
	"ingest/parquet":       {"reliability/fsys/fsystest"},
	"reliability/dlq":      {"reliability/fsys/fsystest", "reliability/dlq/dlqtest", "slo/zonetest"},
	"slo":                  {"slo/zonetest"},
	"sla/delivery":         {"slo/zonetest"},
	"ingest":               {"ingest/record", "ingest/source/sourcetest"},
	"ingest/source/outbox": {"ingest/event", "ingest/mapping", "ingest/source/sourcetest"},
	"ingest/source/kafka":  {"ingest/event", "ingest/source/kafka/kafkatest", "ingest/source/sourcetest"},
	"ingest/otlp":          {"slo/spec"},
	"alerts/blindspot":     {"alerts/state", "ingest/event", "sla/evaluator", "slo/fold"},
	"alerts/state":         {"sla/forecast"},
	"slo/spec":             {"slo/yamldoc/shape/shapetest", "slo/zonetest"},
	"sla/evaluator":        {"ingest/event"},
	"sla/fleet":            {"ingest/event", "sla", "sla/outlook", "slo/spec"},
	"sla/report":           {"ingest/event", "sla/evaluator", "slo/zonetest"},

	"cmd/sloengine/remote": {"ingest/rejects", "sla", "sla/forecast", "slo/fold", "web"},
	"reliability/mail":     {"reliability/mail/mailtest", "reliability/nettest"},
	"rules":                {"rules/rulestest"},
	"rules/explain":        {"alerts", "rules/rulestest"},
	"alerts":               {"rules/rulestest"},
	"alerts/notify":        {"rules", "sla", "slo", "alerts/notify/notifytest"},
	"web/collector":        {"alerts", "rules", "slo/spec"},
	"alerts/own":           {"rules", "rules/rulestest"},
	"alerts/alertmanager":  {"slo/yamldoc/shape/shapetest", "slo/zonetest"},
	"alerts/receivers":     {"rules", "slo", "slo/zonetest"},
	"web":                  {"all"},
	"dashboards":           {"all"},
	"internal/oracle":      {"all"},

	"cmd/sloengine/backtest": {"alerts/incident", "ingest/*"},

	"internal/e2e/alerting":  {"all"},
	"internal/e2e/bench":     {"all"},
	"internal/e2e/brokers":   {"all"},
	"internal/e2e/faults":    {"all"},
	"internal/e2e/operating": {"all"},
	"internal/e2e/otlp":      {"all"},
	"internal/e2e/web":       {"all"},

	"cmd/sloengine/app/config":     {"slo/yamldoc/shape/shapetest"},
	"cmd/sloengine/promapi":        {"slo"},
	"reliability/ratelimit/shared": {"reliability/nettest"},

	"reliability/kafkaclient": {"ingest/source/kafka/kafkatest", "reliability/nettest"},
	"reliability/amqpclient":  {"ingest/source/rabbitmq/rabbitmqtest", "reliability/nettest"},
	"client/outbox":           {"reliability/postgres/postgrestest"},
	"reliability/outbox":      {"reliability/postgres/postgrestest"},
	"reliability/postgres":    {"reliability/nettest", "reliability/postgres/postgrestest"},
	"ingest/sink":             {"ingest/source/kafka/kafkatest", "ingest/source/rabbitmq/rabbitmqtest"},

	"reliability/outbox/relay": {"ingest/event", "ingest/source/kafka/kafkatest", "ingest/source/rabbitmq/rabbitmqtest"},

	// The example of docs/resilience.md puts the policies together.
	"reliability/deadline": {"reliability/breaker", "reliability/bulkhead", "reliability/remote"},
}

// TestImportDirection reads every file's imports and holds them against the
// table: an import that the table lacks fails, and so does a row or an entry
// that no file needs any more.
func TestImportDirection(t *testing.T) {
	used := map[string]map[string]bool{}
	eachGoFile(t, func(p, rel string) {
		pkg := path.Dir(rel)
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("%s: package %q is not in the table", rel, pkg)
			return
		}
		if used[pkg] == nil {
			used[pkg] = map[string]bool{}
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, im := range f.Imports {
			to, err := strconv.Unquote(im.Path.Value)
			require.NoError(t, err)
			to, inside := strings.CutPrefix(to, module)
			if !inside || to == pkg || slices.Contains(leaves, to) ||
				strings.HasSuffix(p, "_test.go") && strings.HasPrefix(to, "internal/testkit") {
				continue
			}
			list := allowed
			if strings.HasSuffix(p, "_test.go") {
				list = slices.Concat(allowed, testsMayImport[pkg])
			}
			entry, ok := permits(list, to)
			if !ok {
				t.Errorf("%s imports %s, which %s may not", rel, to, pkg)
			}
			used[pkg][entry] = true
		}
	})
	for pkg, list := range mayImport {
		if used[pkg] == nil {
			t.Errorf("the table has a row for %s, which has no code", pkg)
			continue
		}
		for _, entry := range slices.Concat(list, testsMayImport[pkg]) {
			if !used[pkg][entry] {
				t.Errorf("the table lets %s import %s, which it no longer does", pkg, entry)
			}
		}
	}
}

// The core knows neither pages nor commands: these read its types.
func TestCoreImportsNoPages(t *testing.T) {
	for pkg, list := range mayImport {
		top, _, _ := strings.Cut(pkg, "/")
		if top == "web" || top == "cmd" || top == "internal" {
			continue
		}
		for _, to := range list {
			if top, _, _ := strings.Cut(to, "/"); top == "web" || top == "cmd" || top == "all" {
				t.Errorf("the table lets %s import %s", pkg, to)
			}
		}
	}
}

// Packages below cmd/sloengine/app know what is below it only: no command, and not how it is wired.
func TestPartsOfTheEngineImportNoCommands(t *testing.T) {
	const app = "cmd/sloengine/app"
	for pkg, list := range mayImport {
		if !strings.HasPrefix(pkg, app+"/") {
			continue
		}
		for _, to := range list {
			if to == "all" || to == app || strings.HasPrefix(to, "cmd/") && !strings.HasPrefix(to, app+"/") {
				t.Errorf("the table lets %s import %s", pkg, to)
			}
		}
	}
}

// maxFiles is how many files without tests a package has at most.
const maxFiles = 25

func TestPackagesHaveFewFiles(t *testing.T) {
	files := map[string]int{}
	eachGoFile(t, func(_, rel string) {
		if !strings.HasSuffix(rel, "_test.go") {
			files[path.Dir(rel)]++
		}
	})
	for pkg, n := range files {
		if n > maxFiles {
			t.Errorf("%s has %d files, and %d are allowed", pkg, n, maxFiles)
		}
	}
}

// maxColumns is how long a line of code, of a comment or of a text in the code is at most. A longer text is joined from
// parts.
const maxColumns = 120

func TestLinesFit(t *testing.T) {
	eachGoFile(t, func(file, rel string) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(data), "\n") {
			if n := utf8.RuneCountInString(line); n > maxColumns {
				t.Errorf("%s:%d has %d columns, and %d are allowed", rel, i+1, n, maxColumns)
			}
		}
	})
}

// maxFields is how many fields a struct of options has at most, and each of those of which all parts of a program would
// otherwise become a field.
const maxFields = 15

var boundedStructs = []string{"cmd/sloengine/app app", "cmd/sloengine/app parts", "cmd/sloengine/app engineStatus",
	"ingest requestState"}

// largerOptions have more, and get none in addition.
var largerOptions = map[string]int{
	"client Options":                   23, // flat, because programs outside this module fill it in
	"cmd/sloengine/send Options":       26, // its flags
	"ingest HandlerOptions":            23, // what an event passes, part by part
	"ingest/engine Options":            26, // most are bounds with a default, which tests set
	"ingest/source Options":            18, // as HandlerOptions
	"reliability/dispatch SinkOptions": 20, // a sink with its policies
	"reliability/outbox/relay Options": 24, // a table, a broker and their policies
}

func TestStructsHaveFewFields(t *testing.T) {
	found := map[string]int{}
	eachGoFile(t, func(p, rel string) {
		if strings.HasSuffix(p, "_test.go") || strings.HasPrefix(rel, "internal/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			typ, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name := path.Dir(rel) + " " + typ.Name.Name
			s, ok := typ.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(name, "Options") && !slices.Contains(boundedStructs, name) {
				return true
			}
			for _, field := range s.Fields.List {
				found[name] += max(1, len(field.Names)) // an embedded struct is one
			}
			if most := max(maxFields, largerOptions[name]); found[name] > most {
				t.Errorf("%s has %d fields, and %d are allowed: group those that belong together", name, found[name], most)
			}
			return true
		})
	})
	for _, name := range boundedStructs {
		require.NotZero(t, found[name], name)
	}
	for name, n := range largerOptions {
		require.Equal(t, n, found[name], "%s: lower the number, or remove it", name)
	}
}

// notCode are folders without code of the project.
var notCode = []string{"testdata", "zz", "data", "bin"}

// eachGoFile calls do with the path of every Go file of the project, and with that from its root, with slashes.
func eachGoFile(t *testing.T, do func(p, rel string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			name := d.Name()
			_, err := os.Stat(filepath.Join(p, "go.mod"))
			if rel != "." && (err == nil || strings.HasPrefix(name, ".") || slices.Contains(notCode, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			do(p, filepath.ToSlash(rel))
		}
		return nil
	}))
}

// opensFiles are the files that read others without [fsys.ReadFile]: as a stream, or to write them.
var opensFiles = []string{
	"reliability/fsys/os.go", "reliability/fsys/read.go", "reliability/backup/restore.go",
	"cmd/sloengine/send/input.go", "cmd/sloengine/send/follow.go", "cmd/sloengine/initcmd.go",
}

// A file that is read whole is read within bounds, and not at all if it is a device or a FIFO: a name in settings may
// lead anywhere.
func TestFilesAreReadWithinBounds(t *testing.T) {
	unbounded := regexp.MustCompile(`os\.(ReadFile|Open|OpenFile)\(|tls\.LoadX509KeyPair\(`)
	found := map[string]bool{}
	eachGoFile(t, func(p, rel string) {
		if strings.HasSuffix(p, "_test.go") || strings.HasSuffix(path.Dir(rel), "test") ||
			strings.HasPrefix(rel, "internal/testkit/") {
			return
		}
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		call := unbounded.Find(text)
		if found[rel] = call != nil; call != nil && !slices.Contains(opensFiles, rel) {
			t.Errorf("%s calls %s: use fsys.ReadFile", rel, call[:len(call)-1])
		}
	})
	for _, file := range opensFiles {
		if !found[file] {
			t.Errorf("%s opens no file any more: remove it from the list", file)
		}
	}
}

func permits(list []string, to string) (entry string, ok bool) {
	for _, e := range list {
		if e == "all" || e == to {
			return e, true
		}
		if prefix, below := strings.CutSuffix(e, "*"); below && strings.HasPrefix(to, prefix) {
			return e, true
		}
	}
	return "", false
}
