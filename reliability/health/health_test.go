package health

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

func TestAFailureIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Buffer
		l := Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Broken: "no save", Works: "saved again"}
		l.Note(nil)
		require.Empty(t, out.String())
		began := time.Now()
		for range 3 {
			l.Note(errors.New("disk full"), "file", "f")
			time.Sleep(time.Second)
		}
		f := l.Failure()
		require.True(t, l.Failing())
		require.Equal(t, began, f.Since)
		require.Equal(t, 2*time.Second, f.Last.Sub(f.Since))
		require.EqualValues(t, 3, f.Count)
		require.EqualError(t, f.Err, "disk full")
		l.Note(nil, "file", "f")
		l.Note(nil, "file", "f")
		require.False(t, l.Failing())
		require.Zero(t, l.Failure())
		require.Regexp(t, `^\S+ level=ERROR msg="no save" file=f err="disk full"\n`+
			`\S+ level=INFO msg="saved again" file=f failed_for=3s failures=3\n$`, out.String())
	})
}

func TestAnotherCauseIsLoggedOnceTheIntervalIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := Tracker{Cause: error.Error, Interval: time.Minute}
		logs := func(text string) bool { _, log := tr.Failed(errors.New(text)); return log }
		began := time.Now()
		require.True(t, logs("a"))
		require.False(t, logs("b"), "too early")
		time.Sleep(time.Minute)
		require.False(t, logs("a"), "it was logged")
		require.True(t, logs("b"))
		require.True(t, tr.Logs("b"))
		require.Equal(t, began, tr.Failure().Since)

		f, log := tr.Recovered()
		require.True(t, log)
		require.EqualValues(t, 4, f.Count)
		require.False(t, logs("b"), "comes and goes")
		_, log = tr.Recovered()
		require.False(t, log, "its beginning was not logged")
		time.Sleep(time.Minute)
		require.True(t, logs("b"))

		_, log = tr.EndIf(func(f Failure) bool { return f.Cause != "b" })
		require.False(t, log)
		require.True(t, tr.Failing())
	})
}

func TestACauseThatIsKnownIsNotLogged(t *testing.T) {
	known := true
	tr := Tracker{Cause: error.Error, Known: func(cause string) bool { return known && cause == "down" }}
	_, log := tr.Failed(errors.New("down"))
	require.False(t, log)
	require.False(t, tr.Logs("down"))
	known = false
	_, log = tr.Failed(errors.New("down"))
	require.True(t, log)
}
