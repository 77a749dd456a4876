package receivers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// JournalSuffix ends the name of the file beside that of a Dispatcher.
const JournalSuffix = ".journal"

// The sites of the journal.
const (
	// SiteJournal: groups that changed, before the next message is sent.
	SiteJournal fsys.Site = "notifications.journal"
	// SiteJournalDir: the folder, after the journal was created in it.
	SiteJournalDir fsys.Site = "notifications.journal.dir"
)

// minJournal is how much a journal may hold at least, so that a small file is not replaced all the time.
const minJournal = 64 << 10

// journal holds the groups that changed since the file was written, a line for each: a checksum and JSON. The
// checksum covers the file, too, so a journal that belongs to another one counts for nothing, and an older program,
// which reads the file alone, only repeats messages.
type journal struct {
	name       string
	f          fsys.File // nil: the next save writes the whole file
	sum        uint32    // of the file
	size, most int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin empties the journal after the file was written.
func (j *journal) begin(file []byte) error {
	j.close()
	err := fsys.ChangeDir(fsys.OS(), filepath.Dir(j.name), SiteJournalDir, func() (err error) {
		j.f, err = fsys.OS().Create(j.name)
		return err
	})
	if err != nil {
		j.close()
		return err
	}
	j.sum, j.size, j.most = crc32.Checksum(file, castagnoli), 0, max(minJournal, len(file))
	return nil
}

// add makes lines durable. After an error the journal is closed: what follows could not be read.
func (j *journal) add(lines []byte) error {
	_, err := j.f.Write(lines)
	if err == nil {
		err = fsys.SyncFile(j.f, SiteJournal)
	}
	if err != nil {
		j.close()
		return fmt.Errorf("write %s: %w", j.name, err)
	}
	j.size += len(lines)
	return nil
}

func (j *journal) close() {
	if j.f != nil {
		_ = j.f.Close() // what matters is synced
		j.f = nil
	}
}

// line appends a group to lines.
func (j *journal) line(lines []byte, g groupJSON) []byte {
	text, err := json.Marshal(g)
	if err != nil {
		return lines // texts and times can always be encoded
	}
	return fmt.Appendf(lines, "%08x %s\n", crc32.Update(j.sum, castagnoli, text), text)
}

// read returns the groups of the journal that belongs to a file, in the order in which they changed. The last line may
// be torn.
func (j *journal) read(file []byte) (out []groupJSON) {
	data, err := fsys.ReadFile(j.name, fsys.MaxStateBytes)
	if err != nil {
		return nil
	}
	sum := crc32.Checksum(file, castagnoli)
	for line := range bytes.Lines(data) {
		var g groupJSON
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if len(text) < 9 || !whole || string(text[:9]) != fmt.Sprintf("%08x ", crc32.Update(sum, castagnoli, text[9:])) ||
			json.Unmarshal(text[9:], &g) != nil {
			break
		}
		out = append(out, g)
	}
	return out
}
