package backtest

import (
	"context"
	"errors"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
)

// Book is the engine's book of incidents as it is now: that of the newest checkpoint, and the records behind it. A
// replay of the retained records would lack incidents that are older, count those of a month from 1, and so miss what
// people wrote about them.
type Book struct {
	View    *incident.View
	Broken  uint64 // records that could not be applied
	Missing []string
}

// ReadBook reads the book of a data folder, beside an engine that may be running.
func ReadBook(ctx context.Context, source *retained.Source, dir string) (Book, error) {
	files := checkpoint.New(checkpoint.Options{FS: fsys.OS(), DataDir: dir})
	for last := uint64(0); ; {
		seq, parts, err := files.ReadParts(incident.IsPart)
		if err != nil {
			return Book{}, err
		}
		b, all := Book{}, incident.NewBook()
		for _, p := range parts {
			if err := all.RestorePart(p.Name, p.Data); err != nil {
				return b, err
			}
		}
		if err := all.FinishRestore(); err != nil {
			return b, err
		}
		gone, err := b.follow(ctx, all, source, seq+1)
		if err != nil || !gone || seq == last {
			b.View = all.View()
			return b, err
		}
		last = seq // the engine has deleted records: there must be a newer checkpoint
	}
}

// follow applies the records from a number on. gone reports that the first of them are not there.
func (b *Book) follow(
	ctx context.Context, all *incident.Book, source *retained.Source, from uint64) (gone bool, err error) {
	reader, err := source.NewReader(retained.Query{From: from})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for rec, err := range reader.Rest(ctx) {
		if err != nil {
			return false, err
		}
		at := time.Unix(0, rec.Time).UTC()
		all.Advance(at)
		if rec.Type == record.TypeIncident && all.Apply(at, rec.Payload) != nil {
			b.Broken++
		}
	}
	gaps, more := reader.Gaps()
	b.Missing = missing(gaps, more)
	return len(gaps) > 0 && gaps[0].First == from, nil
}
