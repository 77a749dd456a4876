package spec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Options say how specs are read.
type Options struct {
	// LenientPromQL takes queries that Prometheus does not parse, with a warning: VictoriaMetrics has more functions.
	LenientPromQL bool
}

// Load is that of the zero Options.
func Load(files []File) (*Spec, Problems) { return Options{}.Load(files) }

// Load reads files and checks them together. All problems are reported at once.
// The Spec is nil if some problem is an error.
func (opts Options) Load(files []File) (*Spec, Problems) {
	r := &yamldoc.Reader{Options: yamldoc.Options{Synonyms: synonyms, Misplaced: misplaced, Lenient: opts.LenientPromQL}}
	l := loader{Reader: r}
	for _, f := range files {
		for v := range r.Documents(f.Name, f.Data) {
			v.What = "spec"
			l.document(v)
		}
	}
	drafts := l.finish()
	if len(drafts) == 0 && r.Errors() == 0 {
		name := "(no file)"
		if len(files) > 0 {
			name = files[0].Name
		}
		r.Errorf(Position{File: name}, "`sloengine init` writes one to start from", "no spec given")
	}
	s := assemble(r, drafts)
	ps := r.Problems()
	if ps.HasErrors() {
		return nil, ps
	}
	for _, w := range ps.Warnings() {
		s.Warnings = append(s.Warnings, w.String())
	}
	return s, ps
}

// LoadPaths is that of the zero Options.
func LoadPaths(paths []string, stdin io.Reader) (*Spec, Problems, error) {
	return Options{}.LoadPaths(paths, stdin)
}

// LoadPaths reads files, folders and, for "-", standard input. A folder stands
// for all *.yaml and *.yml files below it, hidden ones excepted. The error is of
// the file system; what is wrong inside a file is a problem.
func (opts Options) LoadPaths(paths []string, stdin io.Reader) (*Spec, Problems, error) {
	var files []File
	seen := map[string]bool{}
	for _, p := range paths {
		found, err := expand(p)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range found {
			if seen[name] {
				continue
			}
			seen[name] = true
			f, err := open(name, stdin)
			if err != nil {
				return nil, nil, err
			}
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, nil, errors.New("read spec: no file given")
	}
	s, ps := opts.Load(files)
	return s, ps, nil
}

func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != path && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() {
			if hidden {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if hidden || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		// A mounted ConfigMap is a folder of links to files.
		if info, err := os.Stat(name); err != nil {
			return err
		} else if info.Mode().IsRegular() {
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read specs below %s: %w", path, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read specs below %s: no *.yaml or *.yml files found", path)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out, nil
}

func open(name string, stdin io.Reader) (File, error) {
	if name != "-" {
		data, err := fsys.ReadFile(name, yamldoc.MaxFileBytes)
		if err != nil {
			return File{}, fmt.Errorf("read spec: %w", err)
		}
		return File{Name: name, Data: data}, nil
	}
	if stdin == nil {
		return File{}, errors.New("read spec: no standard input")
	}
	// One byte more than allowed is enough to see that it is too large.
	data, err := io.ReadAll(io.LimitReader(stdin, yamldoc.MaxFileBytes+1))
	if err != nil {
		return File{}, fmt.Errorf("read spec from standard input: %w", err)
	}
	return File{Name: "<stdin>", Data: data}, nil
}

// InvalidError is a spec with errors. Its text says how many. The problems have their places.
type InvalidError struct{ Problems Problems }

func (e *InvalidError) Error() string {
	n := len(e.Problems.Errors())
	if n == 1 {
		return "the spec has 1 error"
	}
	return fmt.Sprintf("the spec has %d errors", n)
}

// SpecProblems lists the problems for the answer to a reload.
func (e *InvalidError) SpecProblems() []Problem { return e.Problems }

// loader gathers the documents of all files. Every document says its format; the
// formats may be mixed, in one file too.
type loader struct {
	*yamldoc.Reader
	first   *yamldoc.Value // the first document
	drafts  []*draft
	sloth   []*draft // those of Sloth among them
	windows []*slothWindows
	open    openSLO
}

// finish brings together what documents say about each other.
func (l *loader) finish() []*draft {
	l.applySlothWindows()
	l.drafts = append(l.drafts, l.open.drafts(l)...)
	if len(l.drafts) == 0 && l.first != nil && l.Errors() == 0 {
		l.first.Errorf("add the SLOs that use it", "the spec has no SLO")
	}
	return l.drafts
}

func (l *loader) add(d *draft) {
	if d != nil {
		l.drafts = append(l.drafts, d)
	}
}

// document reads one document, by its version or apiVersion.
func (l *loader) document(v *yamldoc.Value) {
	if l.first == nil {
		l.first = v
	}
	if v.IsList() && v.Len() > 0 && v.Item(0).Peek("apiVersion") != nil {
		items, _ := v.List()
		for _, i := range items {
			if i.What = "spec"; i.IsMapping() {
				l.document(i)
				continue
			}
			i.Errorf("remove it", "the list must contain documents, got %s", i.Shape())
		}
		return
	}
	if !v.IsMapping() {
		v.Errorf("start with `version: "+Version+"`", "a spec is a mapping (key: value), got %s", v.Shape())
		return
	}
	if version := v.Peek("version"); version != nil && !version.IsNull() {
		s, ok := version.Text()
		switch {
		case ok && s == SlothVersion:
			l.addSloth(slothDocument(v))
			return
		case ok && s != Version:
			version.Errorf("want "+Version+", or "+SlothVersion+" for a spec of Sloth", "unknown version %q", yamldoc.Clip(s))
		}
		l.add(documentV1(v))
		return
	}
	if api := v.Peek("apiVersion"); api != nil && !api.IsNull() {
		l.apiDocument(v, api)
		return
	}
	if v.Peek("groups") != nil {
		v.Errorf("want `version: "+Version+"`", "this is a Prometheus rule file, not a sloengine spec")
		return
	}
	l.add(documentV1(v))
}

// apiDocument reads a document in the style of Kubernetes.
func (l *loader) apiDocument(v, api *yamldoc.Value) {
	version, ok := api.Text()
	if !ok {
		return
	}
	kind := ""
	if k := v.Peek("kind"); k != nil && !k.IsNull() {
		if kind, ok = k.Text(); !ok {
			return
		}
	}
	switch {
	case version == OpenSLOVersion, version == OpenSLOAlpha, version == Nobl9Version:
		l.open.document(v, kind, version != OpenSLOVersion)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevel":
		l.addSloth(slothResource(v))
	case version == SlothAPIVersion && kind == "AlertWindows":
		l.slothWindows(v)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevelList", version == "v1" && kind == "List":
		l.items(v)
	case version == PyrraAPIVersion && kind == kindObjective:
		l.add(readPyrra(v))
	case version == PyrraAPIVersion && kind == kindObjective+"List":
		l.items(v)
	case version == GeneratorAPIVersion && kind == kindObjective:
		l.add(readGenerator(v))
	case version == GeneratorAPIVersion:
		kindError(v, kind, kindObjective)
	case version == PyrraAPIVersion:
		kindError(v, kind, kindObjective)
	case version == SlothAPIVersion:
		kindError(v, kind, "PrometheusServiceLevel", "AlertWindows")
	case strings.HasPrefix(version, "openslo"):
		api.Errorf("want "+OpenSLOVersion+" or "+OpenSLOAlpha, "unsupported OpenSLO version %q", yamldoc.Clip(version))
	default:
		v.Errorf("want `version: "+Version+"`, or an apiVersion of Sloth, Pyrra, slo-generator, Nobl9 or OpenSLO",
			"this is a document with apiVersion %s, not a sloengine spec", yamldoc.Printable(yamldoc.Clip(version)))
	}
}

// kindError says that a document is of no kind that is known.
func kindError(v *yamldoc.Value, kind string, known ...string) {
	hint := suggest.DidYouMean(kind, known)
	if hint == "" {
		hint = "want " + suggest.OneOf(known)
	}
	if k := v.Peek("kind"); k != nil {
		k.Errorf(hint, "unknown kind %q", yamldoc.Clip(kind))
		return
	}
	v.Errorf(hint, "the document has no kind")
}

// items reads the documents of a list as the Kubernetes API gives it.
func (l *loader) items(v *yamldoc.Value) {
	items, _ := v.Object("apiVersion", "kind", "metadata", "items").Need("items", "list the documents").List()
	for _, i := range items {
		i.What = "spec"
		if i.IsMapping() && i.Peek("items") != nil {
			i.Errorf("flatten it", "nested lists of documents are not supported")
			continue
		}
		l.document(i)
	}
}
