package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

const codeUnreadable = "unreadable_line"

// read puts every record of one stream into batches.
func (r *runner) read(ctx context.Context, name string, in io.Reader) error {
	records, err := r.records(name, in)
	if err != nil {
		return err
	}
	var times event.Span // of the events read so far
	for {
		var e event.Event
		err := records.next(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		it := item{file: name}
		var text []byte
		it.line, text = records.Record()
		if r.o.Rejects != "" {
			it.raw = strings.TrimRight(string(text), "\r\n")
		}
		var bad *LineError
		switch {
		case errors.As(err, &bad):
			err = r.refuse(it, codeUnreadable, bad.Reason)
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		default:
			if records.access && !e.HasDuration {
				r.untimed.Add(1)
			}
			err = r.take(ctx, it, &e, &times)
		}
		if err != nil {
			return err
		}
	}
}

// records is a log reader that also gives what stands behind the last line break.
type records struct {
	*Reader
	access bool // an access log
}

func (r *records) next(e *event.Event) error {
	err := r.Next(e)
	if errors.Is(err, io.EOF) {
		return r.Flush(e)
	}
	return err
}

func (r *runner) records(name string, in io.Reader) (*records, error) {
	format := Format(r.o.Format)
	if r.o.Format == "auto" {
		var err error
		if format, in, err = detect(name, in, r.o.Map != nil); err != nil {
			return nil, err
		}
	}
	parser, err := NewParser(format, r.o.ParserOptions)
	if err != nil {
		return nil, usage("%v", err)
	}
	return &records{NewReader(in, parser), format != NDJSON && format != JSON}, nil
}

// measureShift reads everything once to find the newest event, and returns the
// whole hours that bring it into the last hour.
func (r *runner) measureShift(ctx context.Context) (time.Duration, error) {
	newest := time.Time{}
	for _, name := range r.o.Files {
		in, err := open(ctx, name, nil, nil)
		if err != nil {
			return 0, err
		}
		last, err := r.newest(ctx, name, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return 0, err
		}
		if last.After(newest) {
			newest = last
		}
	}
	if newest.IsZero() {
		return 0, nil
	}
	return shiftFor(newest, r.o.Now()), nil
}

// shiftFor is the whole hours that put newest into (now-1h, now]. Whole hours
// keep what belongs to one minute, or to one quarter of an hour, together.
func shiftFor(newest, now time.Time) time.Duration {
	hours := math.Floor(now.Sub(newest).Hours())
	return time.Duration(hours) * time.Hour
}

func (r *runner) newest(ctx context.Context, name string, in io.Reader) (time.Time, error) {
	newest := time.Time{}
	records, err := r.records(name, in)
	if err != nil {
		return newest, err
	}
	for {
		if ctx.Err() != nil {
			return newest, context.Cause(ctx)
		}
		var e event.Event
		err := records.next(&e)
		var bad *LineError
		switch {
		case errors.Is(err, io.EOF):
			return newest, nil
		case errors.As(err, &bad): // the second pass says so
		case err != nil:
			return newest, fmt.Errorf("read %s: %w", name, err)
		case e.Time.After(newest):
			newest = e.Time
		}
	}
}
