package fsys_test

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

type numbers struct {
	Version int   `json:"version"`
	All     []int `json:"all"`
}

func newNumbers(disk fsys.FS) (*fsys.StateFile[numbers], *testkit.Buffer) {
	var log testkit.Buffer
	return &fsys.StateFile[numbers]{
		Files: disk, Name: "/numbers.json", What: "numbers", Damaged: "numbers are unreadable",
		Oldest: 2, Newest: 3, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, &log
}

func TestStateFile(t *testing.T) {
	m := fsystest.New()
	s, log := newNumbers(m)
	v, err := s.Load(nil)
	require.NoError(t, err)
	require.Zero(t, v, "there is no file")
	require.NoError(t, s.Save(numbers{3, []int{1, 2}}))
	v, err = s.Load(func(v *numbers) error { v.All = append(v.All, 3); return nil })
	require.NoError(t, err)
	require.Equal(t, numbers{3, []int{1, 2, 3}}, v)
	require.Empty(t, log.String())

	for _, text := range []string{
		"", "{", `{"version":1}`, `{"version":2,"all":[1]}{}`, `{"version":3,"all":[7,"x"]}`, `{"version":2,"all":[7]}`,
	} {
		require.NoError(t, m.WriteFile(s.Name, []byte(text)))
		v, err = s.Load(func(*numbers) error { return errors.New("they do not add up") })
		require.NoError(t, err, text)
		require.Zero(t, v, text)
		kept, err := m.ReadFile(s.Name + ".broken")
		require.NoError(t, err)
		require.Equal(t, text, string(kept))
	}
	require.Contains(t, log.String(),
		`msg="numbers are unreadable" file=/numbers.json kept=/numbers.json.broken err="they do not add up"`)

	require.NoError(t, m.WriteFile(s.Name, []byte(`{"version":2,"more":1}`)))
	_, err = s.Load(nil)
	require.NoError(t, err)
	_, err = m.ReadFile(s.Name)
	require.NoError(t, err, "a field that is not known is no damage")

	require.NoError(t, m.WriteFile(s.Name, []byte(`{"version":4}`)))
	_, err = s.Load(nil)
	require.ErrorIs(t, err, fsys.ErrNewer)
	m.FailNext(fsystest.OpOpen, syscall.EMFILE)
	_, err = s.Load(nil)
	require.ErrorIs(t, err, syscall.EMFILE)
	_, err = m.ReadFile(s.Name)
	require.NoError(t, err, "neither is damage")
}

// A damaged file that cannot be moved aside is named in the log, and does not stop its owner.
func TestADamagedStateFileThatCannotBeKept(t *testing.T) {
	for _, op := range []fsystest.Op{fsystest.OpRename, fsystest.OpOpenDir, fsystest.OpSyncDir} {
		m := fsystest.New()
		s, log := newNumbers(m)
		require.NoError(t, m.WriteFile(s.Name, []byte("{")))
		m.FailNext(op, syscall.EROFS)
		_, err := s.Load(nil)
		require.NoError(t, err)
		require.Contains(t, log.String(), "not_kept=", op)
		require.Contains(t, log.String(), syscall.EROFS.Error(), op)
		require.NotContains(t, log.String(), " kept=", op)
	}
}

func TestStateFileSurvivesPowerLoss(t *testing.T) {
	require.NoError(t, damageSaveAndLosePower())
	for _, site := range append(fsystest.Sites("atomic."), fsystest.Sites("state.")...) {
		require.Error(t, damageSaveAndLosePower(site), "a missing sync %s is not noticed", site)
	}
}

// damageSaveAndLosePower loses the power at each operation between a damaged file and the save of another. The damaged
// one must be there under one of its names, and the saved state must be there whole.
func damageSaveAndLosePower(ignored ...fsys.Site) (broken error) {
	for seed := range int64(20) {
		m := fsystest.New()
		s, _ := newNumbers(m)
		if err := errors.Join(m.WriteFile(s.Name, []byte("{")), fsys.SyncDir(m, "/", "")); err != nil {
			return err
		}
		m.IgnoreSync(ignored...)
		check := func(saved bool) {
			after := m.CrashClone(50, seed)
			text, _ := after.ReadFile(s.Name)
			kept, _ := after.ReadFile(s.Name + fsys.BrokenSuffix)
			whole := string(text) == `{"version":3,"all":[1]}`+"\n"
			if !whole && (saved || len(text) > 0 && string(text) != "{") || string(text) != "{" && string(kept) != "{" {
				broken = fmt.Errorf("found %q and %q", text, kept)
			}
		}
		m.Before(func(fsystest.Op, string) { check(false) })
		if _, err := s.Load(nil); err != nil {
			return err
		}
		if err := s.Save(numbers{3, []int{1}}); err != nil {
			return err
		}
		m.Before(nil)
		check(true)
	}
	return broken
}
