package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A glossaryRule is a word that the project does not use, because the field has a term for it.
type glossaryRule struct {
	stem   string         // every hit contains it in lower case, so that most lines need no regular expression
	never  *regexp.Regexp // matched against lower-case text
	except *regexp.Regexp // uses that are fine: blanked before never is matched
	say    string         // what to write instead
	in     where
}

// where is a set of places that a rule looks at.
type where uint

const (
	prose     where = 1 << iota // comments, strings, documents and templates
	idents                      // Go identifiers, split into words: openLetters is "open letters"
	documents                   // Markdown outside code and tables
	pages                       // text of templates
	texts                       // strings of Go code that people read: those with a space, in the folders of textFolders
	messages                    // the same in all other folders
)

func never(stem, pattern, say string, in where, except ...string) glossaryRule {
	r := glossaryRule{stem: stem, never: regexp.MustCompile(pattern), say: say, in: in}
	if len(except) > 0 {
		r.except = regexp.MustCompile(strings.Join(except, "|"))
	}
	return r
}

var glossary = []glossaryRule{
	never("letter", `\bletters?\b`, "dead letter, dead-letter queue", prose|idents,
		`dead[- _]*letters?`,
		`(upper|lower|capital|small|ascii|latin|greek|cyrillic|single|two|three|one)[- ]*(case )?letters?`,
		`letters?( and|,| or) (digits?|numbers?)`, `(digits?|numbers?)( and|,| or) letters?`, `\bis letter\b`,
		`\bletter case\b`, `\bletters? or (a )?underscores?`, `\b(begins?|beginning|start) with a letter\b`,
		`\bletters are no part\b`),
	never("stretch", `\bstretch(es|ed|ing)?\b`, "log range (of the log), interval (of time)", prose|idents),
	never("mend", `\bmend(s|ed|ing)?\b`, "fix", prose|idents),
	never("back", `\b(take|takes|taken|taking|took) (it |them |this )?back\b`, "roll back", prose|idents),
	never("back", `\b(give|gives|given|giving|gave) (it |them |this )?back\b`,
		"replay (a dead letter), return, release", prose|idents),
	never("owing", `\bowing\b`, "pending", prose|idents),
	never("settl", `\bsettl(e|es|ed|ing)\b`, "flush, pending, final", prose|idents),
	never("sunk", `\bsunk\b`, "delivered", prose|idents),
	never("put", `\bput(s|ting)? (it |them |this )?off\b`, "throttle (a sender), postpone", prose|idents),
	never("on the record", `\bon the record\b`, "recorded", prose),
	never("repeat",
		`\b(a|an|the|its|every|each|no|any|such) repeats?\b|\brepeats `+
			`(of|by|is|are|and|as)\b|\b(drop|ignore|recognise|bears?) repeats\b`,
		"duplicate, retry", prose),
	never("bear", `\bbears?\b`, "handles, tolerates", prose),
	never("away", `\b(is|are|was|were|be|been|stays?|while) away\b|\baway (sink|server|engine)`,
		"unavailable, not reachable, down", prose),
	never("anew", `\banew\b`, "again", prose|idents),
	never("of late", `\bof late\b`, "recently", prose|idents),
	never("rising",
		`\brising(ly| order| ids?| numbers?| times?| offsets?| positions?| sequence)\b|\b(in|strictly|always|not) rising\b`,
		"ascending", prose),
	never("bent", `\bbent\b`, "non-linear (asinh)", prose|idents),
	never("pledge", `\bpledges?\b`, "requirement, SLA alert", prose|idents),
	never("blame", `\bblam(e|es|ed|ing)\b`, "attribution", prose|idents, `git blame`),
	never("score", `\bscore ?books?\b`, "period scores", prose|idents),
	never("young", `\byoung(er|est)?\b`, "new (engine), newer", prose|idents),
	never("room", `\brooms\b|\b(a|each|every|own|this|that|other|another|its|their|what|which) room\b`,
		"package (of Go), space", prose|idents),
	never("nobody", `\bnobody (uses|sees|used|reads|needs|asks|asked|wants|listens|waits)\b|\bthat nobody\b`,
		"unused, unregistered, unreferenced, or name the actor", prose|idents),
	never("no place where", `\bno place where\b`, "invalid X: reason (hint)", prose),
	never("cannot be said", `\bcannot be said\b`, "the format cannot express X", prose),
	never("known id", `\bknown ids?\b`, "deduplication table", prose|idents),
	never("horizon", `\bhorizons?\b`, "dedup window", prose|idents),
	never("shut", `\bshut(s|ting)?\b`, "close", prose|idents, `\bshut(s|ting)?[- ]?down\b`),
	never("attained", `\battained\b`, "met (an agreement)", prose),
	never("limit", `\b(per-event|event|events') limits?\b`, "event threshold", prose),
	never("kept", `\bopen kept\b`, "archive", idents),
	never("unborn", `\bunborn\b`, "isUninitialized", idents),
	never("tell", `\btell apart\b`, "addIdentityLabels, distinguish", idents),
	never(";", `;`, "two sentences", documents),
	never("hearing", `\bfrom hearing of\b`, "mute notifications for", pages),
	never("as ever", `\bas ever\b`, "still", pages),
	never("hold first", `\b(that )?hold first\b`, "active first", pages),
	never("what ", `(^|[.,>] *)what (leaves|comes|is|was|counts)\b.* is\b`, "a subject that acts", pages),
	never("knows", `\bnobody knows\b`, "unknown", pages),
	never("offender", `\bworst offenders?\b`, "top callers over limit", pages),
	never("parked", `\bparked\b`, "archived", pages),
	never("bulkhead", `\bbulkheads?\b`, "concurrency limit", pages),
	never("baselines", `\bagainst the baselines\b`, "compared with before", pages),
	never("both windows", `\bboth windows\b`, "windows", pages),
	never("from zero", `\bstarted from zero\b`, "new since restart", pages),
	never("even spending", `\beven spending\b`, "steady burn", pages),
	never("empty", `\bempty (in|until|now|then|within|soon)\b|\bbudget (is|will be) empty\b`, "exhausted",
		pages|texts|messages),
	never("service level", `\bservice levels?\b`, "SLO", pages|texts|messages,
		`service levels? (objective|(and )?agreement)`),
	never("agreement", `\bagreements?\b`, "SLA", texts, "`agreement`|#agreements"),
	never("indicator", `\bindicators?\b`, "SLI", texts),
	never("%", `\d %(["'),.:; ]|$)|[a-z] %%(["'),.:; ]|$)`, "95%, without a space", pages|texts),
	never("nobody", `\b(no|some|any|every)body\b`, "name the actor", texts|messages, `"nobody"`, `user=nobody`),
	never("t", `\b(tells?|told|telling)\b`, "reports, shows, notifies", texts|messages),
	never("trouble", `\btroubles?\b`, "failure, health", texts|messages),
	never("alike", `\balike\b`, "both X and Y", texts|messages),
	never("on", `\b(goes|go|going) on\b`, "continues, ongoing", pages|texts|messages),
	never("onset", `\bonset\b`, "started", pages|texts),
	never("not known", `\bnot known\b`, "unknown", pages|texts),
	never("what ", `\bwhat (is|was|truly|comes|leaves)\b`, "a noun", texts),
	never("keep", `\bkeeps? no\b`, "does not store", pages|texts),
}

// textFolders hold code with text for people.
var textFolders = []string{"web/"}

// TestGlossary refuses the words above in Go files, documents and templates.
func TestGlossary(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); rel != "." &&
				(strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "vendor", "zz", "data", "bin"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		hits, err := glossaryHits(p, rel)
		for _, hit := range hits {
			t.Error(hit)
		}
		return err
	})
	require.NoError(t, err)
}

// glossaryHits returns one line for each word in a file that the glossary refuses.
func glossaryHits(file, rel string) ([]string, error) {
	ext := filepath.Ext(rel)
	switch {
	case rel == "cmd/sloengine/glossary_test.go":
		return nil, nil
	case ext == ".go", ext == ".md", ext == ".html", ext == ".js", ext == ".yaml" && strings.HasPrefix(rel, "deploy/"):
	default:
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var hits []string
	before := "" // a term may be wrapped: "dead" ends one line and "letters" begins the next
	look := func(line int, text string, in where) {
		if strings.HasSuffix(strings.ToLower(before), "dead") {
			text = "dead " + strings.TrimLeft(text, "/ \t>")
		}
		if in&idents == 0 {
			before = strings.TrimRight(text, " ")
		}
		for _, h := range glossaryWords(text, in) {
			hits = append(hits, fmt.Sprintf("  %s:%d: %s", rel, line, h))
		}
	}
	switch ext {
	case ".go":
		in := prose
		of := func(folder string) bool { return strings.HasPrefix(rel, folder) }
		switch {
		case strings.HasSuffix(rel, "_test.go"), of("internal/"):
		case slices.ContainsFunc(textFolders, of):
			in |= texts
		default:
			in |= messages
		}
		goTexts(data, in, look)
	case ".md":
		markdownTexts(string(data), rel == "CHANGELOG.md", look)
	default:
		for i, line := range strings.Split(string(data), "\n") {
			look(i+1, line, prose)
			if ext == ".html" {
				look(i+1, markup.ReplaceAllString(line, " "), pages)
			}
		}
	}
	return hits, nil
}

// glossaryWords returns what a text says that it should not, and what to write instead.
func glossaryWords(text string, in where) []string {
	var hits []string
	lower := strings.ToLower(text)
	for _, r := range glossary {
		if r.in&in == 0 || !strings.Contains(lower, r.stem) {
			continue
		}
		checked := lower
		if r.except != nil {
			checked = r.except.ReplaceAllString(lower, " ")
		}
		for _, word := range r.never.FindAllString(checked, -1) {
			hits = append(hits, fmt.Sprintf("%q: %s", word, r.say))
		}
	}
	return hits
}

// goTexts hands over the comments and strings of a Go file line by line, and its identifiers as words. Strings with a
// space are looked at as in says. The others are names and formats.
func goTexts(src []byte, in where, look func(line int, text string, in where)) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		line := file.Line(pos)
		switch tok {
		case token.EOF:
			return
		case token.COMMENT, token.STRING:
			as := prose
			if tok == token.STRING && strings.Contains(lit, " ") {
				as = in
			}
			for i, text := range strings.Split(lit, "\n") {
				look(line+i, text, as)
			}
		case token.IDENT:
			look(line, splitIdent(lit), idents)
		}
	}
}

// splitIdent splits an identifier into words: "openDLQLetters" is "open dlq letters", "knownIDs" is "known ids".
func splitIdent(ident string) string {
	var b strings.Builder
	rs := []rune(strings.ReplaceAll(ident, "IDs", "Ids"))
	for i, r := range rs {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			b.WriteByte(' ')
		}
		if r == '_' {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var (
	markup     = regexp.MustCompile(`<[^>]*>|\{\{.*?\}\}`)
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
)

// markdownTexts hands over the lines of a document without inline code and link targets. Code blocks are checked
// for words, but not as prose. Of the changelog only the unreleased part counts: what was released stays as it is.
func markdownTexts(doc string, unreleasedOnly bool, look func(line int, text string, in where)) {
	code, sections := false, 0
	for i, line := range strings.Split(doc, "\n") {
		if strings.HasPrefix(line, "## ") {
			sections++
		}
		if unreleasedOnly && sections > 1 {
			return
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(line, "    ") {
			look(i+1, line, prose)
			continue
		}
		in := prose | documents
		if strings.HasPrefix(line, "|") { // a table lists, and may separate
			in = prose
		}
		look(i+1, linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(line, "``"), "]"), in)
	}
}

// TestGlossaryRules shows what the rules refuse and what they let pass.
func TestGlossaryRules(t *testing.T) {
	for text, hit := range map[string]bool{
		"every letter of a sink":                       true,
		"a dead letter, and the dead-letter queue":     false,
		"letters, digits and hyphens":                  false,
		"Redis is away: limits are local":              true,
		"throw it away":                                false,
		"shut down in order":                           false,
		"shut the log":                                 true,
		"a stretch of the log":                         true,
		"github.com/stretchr/testify":                  false,
		"the setting `known_ids` and its known ids":    true,
		"recommended amendments":                       false,
		"drops are recorded, and there is enough room": false,
		"blame the code":                               true,
	} {
		require.Equal(t, hit, len(glossaryWords(text, prose)) > 0, text)
	}
	for text, hit := range map[string]bool{
		`<h2 id="bulkheads">{{.Bulkheads}} of calls`:   false,
		`<h2>Bulkheads</h2>`:                           true,
		`A silence keeps receivers from hearing of it`: true,
		`Silences, active first`:                       false,
	} {
		require.Equal(t, hit, len(glossaryWords(markup.ReplaceAllString(text, " "), pages)) > 0, text)
	}
	for text, hit := range map[string]bool{
		"the budget is empty in 3h":                     true,
		"95 % of the events":                            true,
		"%.3g %% of the events":                         true,
		"95% of the events, %d %s":                      false,
		"the forecast tells of it":                      true,
		"a service level agreement is not an agreement": true,
		"service level objective":                       false,
		"the folder is not empty":                       false,
	} {
		require.Equal(t, hit, len(glossaryWords(text, texts)) > 0, text)
	}
	for ident, hit := range map[string]bool{
		"openLetters": true, "openDeadLetters": false, "DeadLetterStore": false, "takeBack": true, "knownIDs": true,
		"OpenKept": true, "keptRows": false, "shutdownTimeout": false, "stretchOf": true, "scorebook": true,
	} {
		require.Equal(t, hit, len(glossaryWords(splitIdent(ident), idents)) > 0, ident)
	}
	var lines []string
	markdownTexts("One; two `a;b`.\n```\nx; y\n```\n[text](a;b)\n", false, func(_ int, text string, in where) {
		lines = append(lines, glossaryWords(text, in)...)
	})
	require.Equal(t, []string{`";": two sentences`}, lines)
}
