package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/incidents"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/silences"
	"github.com/sloengine/sloengine/web/status"
)

// answers are the bodies whose schemas are derived from their types: each struct is a schema of its name, and so are
// the structs that it holds. openapi.json adds what a type does not say: descriptions, enumerations, bounds.
var answers = []any{
	v1.SLOList{}, v1.SLOAnswer{}, v1.History{}, v1.SLAList{}, v1.ThresholdList{}, v1.AlertList{}, v1.PeriodReport{},
	v1.Events{}, v1.LedgerAnswer{},
	engineJSON{}, generationList{}, RejectList{}, SeenList{}, counting.ForgetRequest{}, counting.Forgotten{},
	counting.RebuildRequest{}, counting.RebuildAnswer{}, BacktestRequest{}, BacktestAnswer{},
	incidents.List{}, incident.Measures{}, annotations.List{}, silences.List{},
	deadletters.List{}, dlq.Stats{}, dlq.ReplayResult{}, public.Status{}, public.Summary{},
	public.ComponentList{}, public.IncidentList{}, public.MaintenanceList{}, public.Preview{},
	public.Subscribed{}, public.Change{},
}

// schemaNames are the names of schemas that are not those of their types.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[engineJSON]():        "Engine",
	reflect.TypeFor[generationList]():    "GenerationList",
	reflect.TypeFor[spec.Problem]():      "SpecProblem",
	reflect.TypeFor[incidents.List]():    "IncidentList",
	reflect.TypeFor[incidents.Item]():    "Incident",
	reflect.TypeFor[incident.Measures](): "IncidentMeasures",
	reflect.TypeFor[incident.Figure]():   "IncidentFigure",
	reflect.TypeFor[incident.Alert]():    "IncidentAlert",
	reflect.TypeFor[annotations.List]():  "AnnotationList",
	reflect.TypeFor[silences.List]():     "SilenceList",
	reflect.TypeFor[silences.Status]():   "Silence",
	reflect.TypeFor[deadletters.List]():  "DeadLetterList",
	reflect.TypeFor[dlq.Entry]():         "DeadLetter",
	reflect.TypeFor[dlq.Stats]():         "DeadLetterStats",

	reflect.TypeFor[backtest.Result]():   "BacktestResult",
	reflect.TypeFor[backtest.Pair]():     "BacktestPair",
	reflect.TypeFor[backtest.Subject]():  "BacktestSubject",
	reflect.TypeFor[backtest.Side]():     "BacktestSide",
	reflect.TypeFor[backtest.Score]():    "BacktestScore",
	reflect.TypeFor[backtest.Day]():      "BacktestDay",
	reflect.TypeFor[backtest.Alert]():    "BacktestAlert",
	reflect.TypeFor[backtest.Incident](): "BacktestIncident",
	reflect.TypeFor[backtest.Proposal](): "BacktestProposal",

	reflect.TypeFor[status.AlertmanagerStatus](): "AlertmanagerStatus",
	reflect.TypeFor[status.BudgetStatus]():       "BudgetStatus",
	reflect.TypeFor[status.BulkheadStatus]():     "BulkheadStatus",
	reflect.TypeFor[status.ConnectionStatus]():   "ConnectionStatus",
	reflect.TypeFor[status.KeptAttributes]():     "KeptAttributes",
	reflect.TypeFor[status.LimitStatus]():        "LimitStatus",
	reflect.TypeFor[status.OffenderStatus]():     "OffenderStatus",
	reflect.TypeFor[status.RedisStatus]():        "RedisStatus",
	reflect.TypeFor[status.RejectedCode]():       "RejectedCode",
	reflect.TypeFor[status.RejectedSender]():     "RejectedSender",
	reflect.TypeFor[status.ReportStatus]():       "ReportStatus",
	reflect.TypeFor[status.ReportTarget]():       "ReportTarget",
	reflect.TypeFor[status.SinkStatus]():         "SinkStatus",
	reflect.TypeFor[status.SinkTrouble]():        "SinkTrouble",
	reflect.TypeFor[status.SourceTopic]():        "SourceTopic",
	reflect.TypeFor[status.SourceTrouble]():      "SourceTrouble",
	reflect.TypeFor[status.UnknownType]():        "UnknownType",
}

// publicTypes is the package whose schemas begin with Public.
var publicTypes = reflect.TypeFor[public.Status]().PkgPath()

type object = map[string]any

// schemas are derived schemas by name.
type schemas map[string]object

// deriveSchemas derives the schemas of all answers.
func deriveSchemas() schemas {
	s := schemas{}
	for _, body := range answers {
		s.of(reflect.TypeOf(body))
	}
	return s
}

// of is the schema of a type. That of a struct is a reference.
func (s schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[any](): // any JSON
		return object{}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "format": "byte"}
	case t == reflect.TypeFor[slo.Money](), t == reflect.TypeFor[slo.Amount]():
		return object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?$`}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64, reflect.Uint32: // counts, sizes and numbers of things
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		name := schemaNames[t]
		if name == "" {
			name = t.Name()
			if t.PkgPath() == publicTypes {
				name = "Public" + name
			}
		}
		if s[name] == nil {
			body := object{"type": "object", "additionalProperties": false, "properties": object{}}
			s[name] = body
			s.addFields(body, t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	panic(fmt.Sprintf("an answer of the API holds a %s, which has no schema", t))
}

// addFields adds the fields of a struct, and those of structs that it embeds, as encoding/json writes them. A field
// that is not left out when it is empty is required, and null if it is a pointer.
func (s schemas) addFields(body object, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.addFields(body, f.Type)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		schema := s.of(f.Type)
		if !strings.Contains(options, "omit") {
			required, _ := body["required"].([]string)
			body["required"] = append(required, name)
			if f.Type.Kind() == reflect.Pointer {
				if schema = extend(schema, object{"nullable": true}); schema["allOf"] != nil {
					schema["type"] = "object"
				}
			}
		}
		body["properties"].(object)[name] = schema
	}
}

// extend adds to a schema what its type does not say. A text is its description. What else is said of a reference
// stands beside it, and a reference stands for the type.
func extend(schema object, more any) object {
	if text, ok := more.(string); ok {
		more = object{"description": text}
	}
	add := more.(object)
	out := maps.Clone(schema)
	if ref, ok := out["$ref"]; ok {
		delete(out, "$ref")
		out["allOf"] = []any{object{"$ref": ref}}
	}
	if add["$ref"] != nil {
		out = object{}
	}
	for key, value := range add {
		if inner, ok := out[key].(object); ok {
			value = extend(inner, value)
		}
		out[key] = value
	}
	return out
}
