package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

const (
	damagePost  = 100 // events of one request, which is one record of the log
	damageRound = 2000
	damageAll   = 3 * damageRound
)

// damagedFolder is a data folder as a kill leaves it: three rounds of events, a checkpoint
// after the first and the second, and no log before the first.
type damagedFolder struct {
	*attack
	covered []string // segments that lie wholly before the end of the second checkpoint
	beyond  []string // those that lie wholly behind it
	end     int64    // of what was written to the last of them
}

func newDamagedFolder(t *testing.T) *damagedFolder {
	d := &damagedFolder{attack: newAttack(t)}
	for round := range 3 {
		d.launch(t, "")
		for i := range damageRound / damagePost {
			require.Equal(t, damagePost, d.post(t, round*damageRound+i*damagePost).Accepted)
		}
		if round == 2 {
			d.marked(t)
			d.p.Kill()
			break
		}
		d.p.Stop(t)
		d.covered = d.files(t, "wal/*.wal")
	}
	last := len(d.covered) - 1
	d.beyond = d.files(t, "wal/*.wal")[len(d.covered):]
	d.covered = d.covered[:last]
	require.NotEmpty(t, d.covered)
	require.Greater(t, len(d.beyond), 1)
	require.Len(t, d.files(t, "checkpoints/manifest-*"), 2)
	data, err := os.ReadFile(filepath.Join(d.dir, "data", d.beyond[len(d.beyond)-1]))
	require.NoError(t, err)
	d.end = int64(len(bytes.TrimRight(data, "\x00")))
	return d
}

// marked waits until the marker of the log names the last record. It is not written while it is synced, and what it
// does not name is a torn end and no loss.
func (d *damagedFolder) marked(t *testing.T) {
	t.Helper()
	m := regexp.MustCompile(`msg=recovered checkpoint=(\d+) records=(\d+)`).FindStringSubmatch(d.p.Log.String())
	require.NotNil(t, m, d.p.Log)
	checkpoint, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	records, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	last := uint64(checkpoint+records) + uint64(e2etest.Counter(t, d.p, "sloengine_wal_appended_records_total"))
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(d.dir, "data", "wal", "durable"))
		require.NoError(t, err)
		named := uint64(0)
		for slot := range slices.Chunk(data, 40) {
			named = max(named, binary.LittleEndian.Uint64(slot[24:]))
		}
		return named >= last
	}, testkit.Patience, 10*time.Millisecond)
}

// files are those of the data folder that a pattern means, by their age.
func (d *damagedFolder) files(t *testing.T, pattern string) []string {
	t.Helper()
	data := filepath.Join(d.dir, "data")
	paths, err := filepath.Glob(filepath.Join(data, pattern))
	require.NoError(t, err)
	for i, p := range paths {
		paths[i], err = filepath.Rel(data, p)
		require.NoError(t, err)
	}
	return paths
}

// launch starts the program on the folder. refused is what it said if it ended instead.
func (d *damagedFolder) launch(t *testing.T, more ...string) (refused string) {
	t.Helper()
	settings := e2etest.WriteFile(t, d.dir, "engine.yaml",
		"evaluator: {interval: 50ms}\ncheckpoint: {interval: 1h}\nlog: {segment: 1MiB, retain: 0}\n")
	args := []string{"serve", "-f", d.spec, "--data-dir", filepath.Join(d.dir, "data"), "--web.listen-address",
		"127.0.0.1:0", "-c", settings}
	for _, arg := range more {
		if arg != "" {
			args = append(args, arg)
		}
	}
	var ok bool
	d.p, ok = e2etest.Start(t, nil, args...)
	if ok && d.p.WaitReady(t) {
		return ""
	}
	select {
	case <-d.p.Done:
	case <-time.After(testkit.Patience):
		t.Fatalf("neither ready nor ended:\n%s", d.p.Log)
	}
	require.Equal(t, cli.ExitFailure, d.p.Cmd.ProcessState.ExitCode(), d.p.Log)
	lines := strings.Split(strings.TrimSpace(d.p.Log.String()), "\n")
	return lines[len(lines)-1]
}

// post sends damagePost events, the first of that number.
func (d *damagedFolder) post(t *testing.T, first int) (sum e2etest.Answered) {
	t.Helper()
	filler := strings.Repeat("x", 900)
	var body strings.Builder
	for i := first; i < first+damagePost; i++ {
		outcome := "success"
		if i%10 == 0 {
			outcome = "failure"
		}
		fmt.Fprintf(&body, `{"id":"%d","service":"shop","type":"order","outcome":%q,"attributes":{"filler":%q}}`+"\n",
			i, outcome, filler)
	}
	status, answer := e2etest.Post(t, d.p.Base+"/api/v1/events", "", body.String())
	require.Equal(t, 202, status, answer)
	require.NoError(t, json.Unmarshal([]byte(answer), &sum))
	return sum
}

// copy is the folder once more, for one kind of damage.
func (d *damagedFolder) copy(t *testing.T) *damagedFolder {
	t.Helper()
	c := &damagedFolder{attack: &attack{t: t, dir: t.TempDir(), spec: d.spec}, covered: d.covered,
		beyond: d.beyond, end: d.end}
	require.NoError(t, os.CopyFS(filepath.Join(c.dir, "data"), os.DirFS(filepath.Join(d.dir, "data"))))
	return c
}

// change rewrites a file of the data folder.
func (d *damagedFolder) change(t *testing.T, file string, by func(data []byte) []byte) {
	t.Helper()
	path := filepath.Join(d.dir, "data", file)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, by(data), 0o600))
}

func (d *damagedFolder) flip(t *testing.T, file string, at func(size int) int) {
	t.Helper()
	d.change(t, file, func(data []byte) []byte {
		data[at(len(data))] ^= 1
		return data
	})
}

// content is all of the log and the checkpoints.
func (d *damagedFolder) content(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range append(d.files(t, "wal/*"), d.files(t, "checkpoints/*")...) {
		data, err := os.ReadFile(filepath.Join(d.dir, "data", file))
		require.NoError(t, err)
		all[file] = string(data)
	}
	return all
}

// Damage on the disk, of each kind on a copy of the same folder: what costs nothing the program
// gets over by itself; what costs something it refuses with the file, the place and the
// numbers, changes nothing, and under the override keeps all that is whole.
func TestDamageOnDisk(t *testing.T) {
	t.Parallel()
	whole := newDamagedFolder(t)
	pack := whole.files(t, "checkpoints/pack-*")
	ids := whole.files(t, "checkpoints/ids-*")
	require.Len(t, pack, 2)
	require.Len(t, ids, 1)
	middle := func(size int) int { return size / 2 }
	behind := whole.beyond[0]
	last := whole.beyond[len(whole.beyond)-1]
	const tail = 20 << 10 // within the last record
	var first int
	_, err := fmt.Sscanf(filepath.Base(whole.covered[0]), "%020d.wal", &first)
	require.NoError(t, err)
	gone := fmt.Sprintf("records 1 to %d are lost, %[1]d in all", first-1)
	for _, at := range []struct {
		name        string
		damage      func(t *testing.T, d *damagedFolder)
		told        []string // by a refusal, or where nothing is lost, in the log
		lost        int      // events that are not counted any more
		again       int      // events that count when all are sent again
		refused     bool
		deadLetters bool // events that the log has, but not their configuration, are dead letters
	}{
		{name: "ids that the log still has", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, ids[0], func(size int) int { return size * 3 / 4 })
		}, told: []string{"checkpoint is damaged", ids[0], "bytes 34024 to 68032", "2000 of 4000 ids"}},
		{name: "ids that only the checkpoints have", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, ids[0], func(size int) int { return size / 4 })
		}, told: []string{ids[0], "bytes 16 to 34024", "2000 of 4000 ids"}, again: 2000, refused: true},
		{name: "pack of the newer checkpoint", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, pack[1], middle)
		}, told: []string{"checkpoint is damaged", pack[1]}},
		{name: "packs of both checkpoints", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, pack[0], middle)
			d.flip(t, pack[1], middle)
		}, told: []string{gone, pack[0], pack[1]}, lost: damageRound, refused: true, deadLetters: true},
		{name: "log in front of the checkpoint", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, whole.covered[len(whole.covered)-1], middle)
		}, told: []string{"the checkpoint holds all that is lost", whole.covered[len(whole.covered)-1], "1 in all"}},
		{name: "log behind the checkpoint", damage: func(t *testing.T, d *damagedFolder) {
			d.flip(t, behind, middle)
		}, told: []string{behind, "1 in all"}, lost: damagePost, again: damagePost, refused: true},
		{name: "end of the log cut off", damage: func(t *testing.T, d *damagedFolder) {
			d.change(t, last, func(data []byte) []byte { return data[:d.end-tail] })
		}, told: []string{last, "cannot be used"}, lost: damagePost, again: damagePost, refused: true},
		{name: "end of the log zeroed", damage: func(t *testing.T, d *damagedFolder) {
			d.change(t, last, func(data []byte) []byte {
				clear(data[d.end-tail:])
				return data
			})
		}, told: []string{last, "cannot be used"}, lost: damagePost, again: damagePost, refused: true},
	} {
		t.Run(at.name, func(t *testing.T) {
			d := whole.copy(t)
			d.t = t
			at.damage(t, d)
			before := d.content(t)
			said := d.launch(t)
			if at.refused {
				t.Log(said)
				after := d.content(t)
				if !strings.Contains(said, "log is corrupt") { // a whole log is opened before the checkpoints
					delete(before, "wal/durable")
					delete(after, "wal/durable")
				}
				require.True(t, maps.Equal(before, after), "a refused start changes nothing")
				require.Contains(t, said, "accept-loss")
				require.Empty(t, d.launch(t, "--accept-loss"))
			} else {
				require.Empty(t, said)
				said = d.p.Log.String()
				t.Log(said)
			}
			for _, part := range at.told {
				require.Contains(t, said, strings.TrimPrefix(part, "checkpoints/"))
			}
			counted := damageAll - at.lost
			d.counts(counted-counted/10, counted/10)
			dead := int(e2etest.Counter(t, d.p, "sloengine_fold_dead_letters_total"))
			require.Equal(t, at.deadLetters, dead > 0)
			require.Zero(t, dead%damagePost)
			require.Less(t, dead, damageRound)
			d.p.Kill()
			require.Empty(t, d.launch(t), "the next start needs no override")
			d.counts(counted-counted/10, counted/10)
			var sum e2etest.Answered
			for first := 0; first < damageAll; first += damagePost {
				one := d.post(t, first)
				sum.Accepted += one.Accepted
				sum.Duplicates += one.Duplicates
			}
			require.Equal(t, []int{at.again, damageAll - at.again}, []int{sum.Accepted, sum.Duplicates})
			counted += at.again
			d.counts(counted-counted/10, counted/10)
			d.p.Stop(t)
		})
	}
}
