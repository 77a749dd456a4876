package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// opens calls a hook whenever a file is opened for reading.
type opens struct {
	fsys.FS
	hook func()
}

func (o *opens) Open(name string) (fsys.File, error) {
	if o.hook != nil {
		o.hook()
	}
	return o.FS.Open(name)
}

// While a sink is replaced, its cursor retains the log: a checkpoint at that moment must not truncate the records
// that it has yet to get.
func TestReplaceRetainsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &opens{}
		b := newBench(t, func(o *Options) { disk.FS, o.FS = o.FS, disk })
		b.write(10, 1)
		b.add(SinkOptions{Name: "one", Sink: newFake(hanging)})
		b.run()
		time.Sleep(2 * time.Second)
		looked := 0
		disk.hook = func() { // the new lane reads its cursor
			lowest, ok := b.d.Lowest()
			require.True(t, ok)
			require.EqualValues(t, 1, lowest)
			looked++
		}
		require.NoError(t, b.d.Replace(t.Context(), SinkOptions{Name: "one", Sink: newFake(nil)}))
		disk.hook = nil
		require.Positive(t, looked)
		b.end()
	})
}
