package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file reads checkpoints beside an engine that may be writing them, without its lock. It changes nothing.

// CheckFormat refuses checkpoints of a newer version and changes nothing. Any other damage is judged by Load.
//
// It runs before the folder is locked, so an engine may be writing meanwhile. It only reads manifests, which
// appear whole.
func (s *Store) CheckFormat() error {
	numbers, err := s.manifests()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if _, err := s.readManifest(number); errors.Is(err, fsys.ErrNewer) {
			return fmt.Errorf("checkpoint %s: %w", s.path(manifestName(number)), err)
		}
	}
	return nil
}

// OpenNewest opens the files of the newest checkpoint, if there is one, for a copy. Files that are appended to count as
// far as the manifest says. A concurrent Write may delete a file meanwhile: the error is then fs.ErrNotExist, and the
// files that were added stay open.
func (s *Store) OpenNewest(add func(name string, size int64, file fsys.File)) error {
	numbers, err := s.manifests()
	if err != nil || len(numbers) == 0 {
		return err
	}
	m, err := s.readManifest(numbers[0])
	if err != nil {
		return err
	}
	open := func(name string, size int64) {
		if err == nil {
			var file fsys.File
			if file, err = s.opt.FS.Open(s.path(name)); err == nil {
				add(name, size, file)
			}
		}
	}
	for _, p := range m.packs {
		open(packName(p.number), p.size)
	}
	for _, f := range m.ids {
		open(idsName(f.number), f.length)
	}
	open(manifestName(m.number), m.size)
	return err
}

// ReadParts reads those parts of the newest checkpoint whose names are wanted, or of an older one if they are damaged
// there. seq is the last record in them, 0 without a checkpoint. A concurrent Write may delete files meanwhile: then
// there is a newer checkpoint, which is read instead.
func (s *Store) ReadParts(wanted func(name string) bool) (seq uint64, parts []Part, err error) {
	for newest := uint64(0); ; {
		numbers, listErr := s.manifests()
		switch {
		case errors.Is(listErr, fs.ErrNotExist), listErr == nil && len(numbers) == 0:
			return 0, nil, nil
		case listErr != nil:
			return 0, nil, listErr
		case numbers[0] == newest:
			return 0, nil, err
		}
		newest, err = numbers[0], nil
		for _, number := range numbers {
			m, failed := s.readManifest(number)
			if failed == nil {
				if parts, failed = s.partsOf(m, wanted); failed == nil {
					return m.seq, parts, nil
				}
			}
			if isPassing(failed) {
				return 0, nil, failed
			}
			err = errors.Join(err, fmt.Errorf("checkpoint %s: %w", manifestName(number), failed))
		}
	}
}

func (s *Store) partsOf(m *manifest, wanted func(name string) bool) (parts []Part, err error) {
	some := manifest{parts: slices.DeleteFunc(slices.Clone(m.parts), func(p savedPart) bool { return !wanted(p.name) })}
	err = s.eachPart(&some, func(p *savedPart, pack fsys.File, err error) error {
		if err == nil {
			var data []byte
			data, err = readSaved(pack, *p, nil)
			parts = append(parts, Part{Name: p.name, Data: data})
		}
		return err
	}, func(string, error) error { return nil }) // parts have checksums of their own
	return parts, err
}
