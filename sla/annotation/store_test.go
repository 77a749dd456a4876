package annotation

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type world struct {
	*Store
	t    *testing.T
	file string
	now  time.Time
	log  bytes.Buffer
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, file: filepath.Join(t.TempDir(), "annotations.json"), now: noon}
	w.open()
	return w
}

// open reads the file again, as a restart does.
func (w *world) open() {
	w.t.Helper()
	var err error
	w.Store, err = New(Options{File: w.file, Now: func() time.Time {
		return w.now
	}, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	require.NoError(w.t, err)
}

func (w *world) texts(service string, sp slo.Span) (out []string) {
	for _, a := range w.List(service, sp) {
		out = append(out, a.Text)
	}
	return out
}

func TestAnnotationsSurviveARestart(t *testing.T) {
	w := newWorld(t)
	a, err := w.Add(Annotation{Kind: Deployment, Service: "shop", Text: "v1.2.3 deployed", Author: "ci"})
	require.NoError(t, err)
	require.Equal(t, noon, a.At)
	again, err := w.Add(Annotation{Kind: Deployment, Service: "shop", Text: "v1.2.3 deployed"})
	require.NoError(t, err)
	require.Equal(t, a.ID, again.ID, "a retry adds nothing")
	_, err = w.Add(Annotation{Text: "load test", At: noon.Add(-time.Hour)})
	require.NoError(t, err)
	_, err = w.Add(Annotation{Service: "web", Text: "of another service"})
	require.NoError(t, err)

	w.open()
	require.Equal(t, []string{"load test", "v1.2.3 deployed"}, w.texts("shop", slo.Span{}))
	require.Equal(t, []string{"load test", "v1.2.3 deployed", "of another service"}, w.texts("", slo.Span{}))
	require.Equal(t, []string{"load test"}, w.texts("shop", slo.Span{From: noon.Add(-time.Hour), To: noon}))
	before := w.Changes()
	_, err = w.Delete(a.ID)
	require.NoError(t, err)
	require.Greater(t, w.Changes(), before)
	_, err = w.Delete(a.ID)
	require.ErrorIs(t, err, ErrNotFound)
	w.open()
	require.Equal(t, []string{"load test"}, w.texts("shop", slo.Span{}))
}

func TestAChangeOfTheSpecIsAnnotated(t *testing.T) {
	w := newWorld(t)
	for _, hash := range []string{"aaa", "aaa"} {
		require.NoError(t, w.InForce(hash))
	}
	require.Empty(t, w.texts("", slo.Span{}), "the first spec changes nothing")
	w.now = noon.Add(time.Hour)
	w.open()
	require.NoError(t, w.InForce("bbb")) // changed while the engine was stopped
	require.NoError(t, w.InForce("bbb"))
	require.Equal(t, []string{"spec aaa replaced by bbb"}, w.texts("any", slo.Span{}))
	require.Equal(t, Spec, w.List("", slo.Span{})[0].Kind)
	require.Equal(t, w.now, w.List("", slo.Span{})[0].At)
}

func TestAnnotationsAreBounded(t *testing.T) {
	w := newWorld(t)
	var all []Annotation
	for i := range Max + 100 {
		all = append(
			all, Annotation{ID: fmt.Sprint(i), Text: fmt.Sprint(i), At: noon.Add(time.Duration(i-2*Max) * time.Second)})
	}
	all = prune(all, noon)
	require.Len(t, all, Max)
	require.Equal(t, "100", all[0].Text, "the earliest make way")
	require.Empty(t, prune(all, noon.Add(MaxAge+time.Hour)))

	for name, a := range map[string]Annotation{
		"no text": {Text: " "}, "too long": {Text: strings.Repeat("ü", MaxText+1)}, "control": {Text: "a\x1b[31m"},
		"not UTF-8": {Text: "a\xff"},
		"author":    {Text: "a", Author: strings.Repeat("a", MaxAuthor+1)}, "kind": {Text: "a", Kind: "party"},
		"too old": {Text: "a", At: noon.Add(-MaxAge - time.Minute)}, "future": {Text: "a", At: noon.Add(2 * time.Hour)},
		"service": {Text: "a", Service: strings.Repeat("a", 129)},
	} {
		_, err := w.Add(a)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	_, err := w.Add(Annotation{Text: strings.Repeat("ü", MaxText)})
	require.NoError(t, err)
}

func TestBrokenAndNewerFiles(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.WriteFile(w.file, []byte(`{"version":1,"annotations":[{]}`), 0o600))
	w.open()
	require.Contains(t, w.log.String(), "annotations are unreadable")
	require.FileExists(t, w.file+".broken")
	require.NoError(t, os.WriteFile(w.file, []byte(`{"version":2,"annotations":[]}`), 0o600))
	_, err := New(w.o)
	require.ErrorContains(t, err, "annotations")

	// What cannot be saved is not there.
	w.loseFolder()
	_, err = w.Add(Annotation{Text: "a"})
	require.ErrorContains(t, err, "save annotations")
	require.Empty(t, w.texts("", slo.Span{}))
}

// loseFolder opens a store whose folder does not exist.
func (w *world) loseFolder() {
	w.file = filepath.Join(filepath.Dir(w.file), "missing", "annotations.json")
	w.open()
}

func TestMerge(t *testing.T) {
	at := func(minute int, text, author string) Annotation {
		return Annotation{At: noon.Add(time.Duration(minute) * time.Minute), Kind: Deployment, Service: "shop",
			Text: text, Author: author}
	}
	a, b := []Annotation{at(1, "v1", "x"), at(3, "v3", "x")},
		[]Annotation{at(1, "v1", "y"), at(2, "v2", "y"), at(3, "v4", "y")}
	require.Equal(t, []Annotation{a[0], b[1], a[1], b[2]}, Merge(a, b), "what both say is there once")
	require.Equal(t, "x", a[0].Author)
	require.Empty(t, Merge())
	var many []Annotation
	for i := range Max + 5 {
		many = append(many, at(i, "v", ""))
	}
	require.Equal(t, many[5:], Merge(many))
	w := newWorld(t)
	for i := range 3 {
		_, err := w.Add(Annotation{Text: fmt.Sprint(i), At: noon.Add(time.Duration(i-3) * time.Minute)})
		require.NoError(t, err)
	}
	latest, changes := w.Latest(2)
	require.Equal(t, []string{"1", "2"}, []string{latest[0].Text, latest[1].Text})
	require.Equal(t, w.Changes(), changes)
}
