package otlpwire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// withoutText are the files of the protocol with bytes in place of every text: the official decoder then takes invalid
// UTF-8 as ours does, and is as strict in everything else.
var withoutText = func() *protoregistry.Files {
	var set descriptorpb.FileDescriptorSet
	for _, f := range []protoreflect.FileDescriptor{common.File_opentelemetry_proto_common_v1_common_proto,
		resource.File_opentelemetry_proto_resource_v1_resource_proto, trace.File_opentelemetry_proto_trace_v1_trace_proto,
		logs.File_opentelemetry_proto_logs_v1_logs_proto, metrics.File_opentelemetry_proto_metrics_v1_metrics_proto} {
		p := protodesc.ToFileDescriptorProto(f)
		eachMessage(p.MessageType, func(m *descriptorpb.DescriptorProto) {
			for _, f := range m.Field {
				if f.GetType() == descriptorpb.FieldDescriptorProto_TYPE_STRING {
					f.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
				}
			}
		})
		set.File = append(set.File, p)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		panic(err)
	}
	return files
}()

func eachMessage(list []*descriptorpb.DescriptorProto, f func(*descriptorpb.DescriptorProto)) {
	for _, m := range list {
		f(m)
		eachMessage(m.NestedType, f)
	}
}

// official decodes body into m, with invalid UTF-8 repaired.
func official(body []byte, m proto.Message) error {
	d, err := withoutText.FindDescriptorByName(m.ProtoReflect().Descriptor().FullName())
	if err != nil {
		return err
	}
	dyn := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, dyn); err != nil {
		return err
	}
	repairTexts(dyn, m.ProtoReflect().Descriptor())
	body, err = proto.Marshal(dyn)
	if err != nil {
		return err
	}
	return proto.Unmarshal(body, m)
}

func repairTexts(m protoreflect.Message, as protoreflect.MessageDescriptor) {
	repair := func(v protoreflect.Value) protoreflect.Value {
		return protoreflect.ValueOfBytes(bytes.ToValidUTF8(v.Bytes(), []byte("\uFFFD")))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		was := as.Fields().ByNumber(f.Number())
		switch {
		case was.Kind() == protoreflect.StringKind && f.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, repair(v.List().Get(i)))
			}
		case was.Kind() == protoreflect.StringKind:
			m.Set(f, repair(v))
		case was.Kind() == protoreflect.MessageKind && f.IsList():
			for i := range v.List().Len() {
				repairTexts(v.List().Get(i).Message(), was.Message())
			}
		case was.Kind() == protoreflect.MessageKind:
			repairTexts(v.Message(), was.Message())
		}
		return true
	})
}

// officialJSON decodes OTLP/JSON into m: its hexadecimal ids become the base64 of protobuf's JSON first.
func officialJSON(body []byte, m proto.Message) error {
	if !json.Valid(body) {
		return io.ErrUnexpectedEOF
	}
	body = mapIDs(body, m.ProtoReflect().Descriptor(), func(s string) string {
		id, err := hex.DecodeString(s)
		if err != nil {
			id = []byte{0}
		}
		return base64.StdEncoding.EncodeToString(id)
	})
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
}

// toJSON writes m as OTLP/JSON.
func toJSON(t require.TestingT, m proto.Message, o protojson.MarshalOptions) []byte {
	body, err := o.Marshal(m)
	require.NoError(t, err)
	return mapIDs(body, m.ProtoReflect().Descriptor(), func(s string) string {
		id, err := base64.StdEncoding.DecodeString(s)
		require.NoError(t, err)
		return hex.EncodeToString(id)
	})
}

// mapIDs writes valid JSON again, token by token, with the ids of the message changed.
func mapIDs(body []byte, m protoreflect.MessageDescriptor, change func(string) string) []byte {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var out bytes.Buffer
	write := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		out.Write(b)
	}
	var value func(m protoreflect.MessageDescriptor, id bool)
	value = func(m protoreflect.MessageDescriptor, id bool) {
		token, err := dec.Token()
		if err != nil {
			panic(err)
		}
		open, _ := token.(json.Delim)
		if open == 0 {
			switch v := token.(type) {
			case json.Number:
				out.WriteString(v.String())
			case string:
				if id {
					v = change(v)
				}
				write(v)
			default:
				write(v)
			}
			return
		}
		out.WriteString(open.String())
		for n := 0; dec.More(); n++ {
			if n > 0 {
				out.WriteByte(',')
			}
			if open == '[' {
				value(m, id)
				continue
			}
			key, _ := dec.Token()
			write(key)
			out.WriteByte(':')
			var of protoreflect.MessageDescriptor
			isID := false
			if m != nil {
				f := m.Fields().ByJSONName(key.(string))
				if f == nil {
					f = m.Fields().ByTextName(key.(string))
				}
				if f != nil {
					of, isID = f.Message(), f.Kind() == protoreflect.BytesKind && strings.HasSuffix(string(f.Name()), "_id")
				}
			}
			value(of, isID)
		}
		end, _ := dec.Token()
		out.WriteString(end.(json.Delim).String())
	}
	value(m, false)
	return out.Bytes()
}

var replaced = regexp.MustCompile("\uFFFD+")

// plain makes a text comparable: how many U+FFFD stand for invalid bytes differs between decoders of JSON.
func plain[T string | []byte](s T) string { return replaced.ReplaceAllString(string(s), "\uFFFD") }

// render writes a value as text.
func render(v *common.AnyValue) string {
	var b strings.Builder
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		fmt.Fprintf(&b, "%q", plain(v.StringValue))
	case *common.AnyValue_BoolValue:
		fmt.Fprint(&b, v.BoolValue)
	case *common.AnyValue_IntValue:
		fmt.Fprint(&b, v.IntValue)
	case *common.AnyValue_DoubleValue:
		fmt.Fprintf(&b, "%x", math.Float64bits(v.DoubleValue))
	case *common.AnyValue_BytesValue:
		fmt.Fprintf(&b, "bytes %x", v.BytesValue)
	case *common.AnyValue_ArrayValue:
		fmt.Fprint(&b, "array")
		for _, e := range v.ArrayValue.GetValues() {
			fmt.Fprint(&b, " ", render(e))
		}
		fmt.Fprint(&b, ".")
	case *common.AnyValue_KvlistValue:
		fmt.Fprint(&b, "map")
		for _, e := range v.KvlistValue.GetValues() {
			fmt.Fprintf(&b, " %q=%s", plain(e.Key), render(e.Value))
		}
		fmt.Fprint(&b, ".")
	default:
		return "empty"
	}
	return b.String()
}

func renderAttrs(list []*common.KeyValue) (out []string) {
	for _, a := range list {
		out = append(out, plain(a.Key)+"="+render(a.Value))
	}
	return out
}

// asOfficial is the value that the official decoder should have.
func asOfficial(v otlpwire.Value) *common.AnyValue {
	switch v.Kind {
	case otlpwire.String:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: string(v.Bytes)}}
	case otlpwire.Int:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v.Int}}
	case otlpwire.Float:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v.Float}}
	case otlpwire.Bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v.Int != 0}}
	case otlpwire.Bytes:
		return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: v.Bytes}}
	case otlpwire.Array:
		var list common.ArrayValue
		if err := official(v.Bytes, &list); err != nil {
			panic(err)
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &list}}
	case otlpwire.Map:
		var list common.KeyValueList
		if err := official(v.Bytes, &list); err != nil {
			panic(err)
		}
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &list}}
	}
	return nil
}

func renderOurs(list []otlpwire.Attr) (out []string) {
	for _, a := range list {
		out = append(out, plain(a.Key)+"="+render(asOfficial(a.Value)))
	}
	return out
}

// seen is an item as text: what our decoder and the official one have to agree on.
type seen struct {
	Place           string
	Resource, Attrs []string
	Scope, Item     string
}

// exact are limits that no test's request reaches, but for the depth.
var exact = otlpwire.Limits{MaxAttrs: 1 << 30, MaxItems: 1 << 30, MaxValueBytes: 1 << 30}

// sameAnswer requires that both decoders take a body, and see the same items, or that both refuse it.
func sameAnswer(t require.TestingT, body []byte, ours []seen, err error, lost otlpwire.Losses, officials []seen,
	officialErr error) {
	if err != nil && strings.Contains(err.Error(), "nest deeper") || lost.Cut > 0 {
		return
	}
	if officialErr != nil {
		require.Error(t, err, "%q: official: %v", body, officialErr)
		return
	}
	require.NoError(t, err, "%q", body)
	require.Equal(t, officials, ours, "%q", body)
}

// officialIn decodes body, which is in JSON or in protobuf, into m.
func officialIn(body []byte, inJSON bool, m proto.Message) error {
	if inJSON {
		return officialJSON(body, m)
	}
	return official(body, m)
}

// checkRandom compares the decoders of a signal with the official ones on random messages.
func checkRandom(t *testing.T, empty func() proto.Message,
	compare func(t require.TestingT, d *otlpwire.Decoder, body []byte, inJSON bool)) {
	d := otlpwire.New(exact)
	rapid.Check(t, func(t *rapid.T) {
		data := empty()
		fill(t, data.ProtoReflect(), 9)
		compare(t, d, scrambled(t, data), false)
		compare(t, d, marshal(t, data), false)
		o := protojson.MarshalOptions{UseEnumNumbers: rapid.Bool().Draw(t, "numbers"),
			UseProtoNames: rapid.Bool().Draw(t, "names"), EmitUnpopulated: rapid.Bool().Draw(t, "empty")}
		compare(t, d, toJSON(t, data, o), true)
	})
}
