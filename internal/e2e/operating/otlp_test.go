package operating

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

const spanSpec = `version: sloengine/v1
service: shop
slos:
  - {name: availability, objective: 99, indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}}
`

// spans are requests to a service, with ids from a first one on.
func spans(t *testing.T, service string, first byte, n int) []byte {
	t.Helper()
	in := &trace.ScopeSpans{}
	for i := range n {
		id := bytes.Repeat([]byte{first, byte(i + 1)}, 8)
		end := uint64(time.Now().UnixNano())
		in.Spans = append(in.Spans, &trace.Span{TraceId: id, SpanId: id[:8], Kind: trace.Span_SPAN_KIND_SERVER, Name: "GET /",
			StartTimeUnixNano: end - 1e6, EndTimeUnixNano: end})
	}
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name",
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: service}}}}},
		ScopeSpans: []*trace.ScopeSpans{in}}}})
	require.NoError(t, err)
	return body
}

// OTLP/gRPC has an address of its own, with the TLS and the tokens of the HTTP server.
func TestOTLPOverGRPC(t *testing.T) {
	cert, key := nettest.SelfSigned(t)
	for _, secure := range []bool{false, true} {
		dir := t.TempDir()
		settings := "otlp: {grpc: 127.0.0.1:0}\nevaluator: {interval: 500ms}\n"
		if secure {
			e2etest.WriteFile(t, dir, "cert.pem", string(cert))
			e2etest.WriteFile(t, dir, "key.pem", string(key))
			e2etest.WriteFile(t, dir, "web.yaml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
			settings += "web: {config_file: web.yaml}\n"
		}
		p, ok := e2etest.ServeIn(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", spanSpec), settings)
		require.True(t, ok, p.Log)
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(!secure)
		protocols.SetHTTP2(secure)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(cert))
		client := &http.Client{Timeout: 10 * time.Second,
			Transport: &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		address := ""
		testkit.Eventually(t, "the address is logged", func() bool {
			for _, line := range p.LinesWith("listening for OTLP/gRPC") {
				_, address, _ = strings.Cut(line, "address=")
			}
			return address != ""
		})
		scheme := map[bool]string{false: "http://", true: "https://"}[secure]
		send := func(body []byte) string {
			frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
			req, err := http.NewRequest(http.MethodPost, scheme+strings.TrimSpace(address)+
				"/opentelemetry.proto.collector.trace.v1.TraceService/Export", bytes.NewReader(frame))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/grpc")
			res, err := client.Do(req)
			if err != nil {
				return err.Error()
			}
			defer res.Body.Close()
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			return res.Trailer.Get("Grpc-Status")
		}
		body := spans(t, "shop", 1, 20)
		testkit.Eventually(t, "the engine is ready", func() bool { return send(body) == "0" })
		require.Equal(t, "0", send(body), "a resend")
		if !secure {
			testkit.Eventually(t, "every span counts once", func() bool { return e2etest.Counted(t, p, "availability") == 20 })
		}
		p.Stop(t)
		client.CloseIdleConnections()
	}
}

// Spans of services that no spec has are seen, a spec is proposed, and after a reload they count.
func TestFromTrafficToSLO(t *testing.T) {
	dir, specs := t.TempDir(), t.TempDir()
	e2etest.WriteFile(t, specs, "first.yaml", strings.ReplaceAll(spanSpec, "shop", "other"))
	p := e2etest.Serve(t, dir, specs, "evaluator: {interval: 500ms}\n")
	send := func(first byte) {
		res, err := http.Post(p.Base+"/v1/traces", "application/x-protobuf", bytes.NewReader(spans(t, "cart", first, 50)))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	send(1)
	out, errOut, code := e2etest.Command(t, "init", "--from-traffic", p.Base)
	require.Zero(t, code, errOut)
	require.Contains(t, out, `service: "cart"`)
	e2etest.WriteFile(t, specs, "traffic.yaml", out)
	_, errOut, code = e2etest.Command(t, "check", "-f", specs)
	require.Zero(t, code, errOut)
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	send(2)
	testkit.Eventually(t, "the spans count", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos?service=cart")), `"cart/availability"`)
	})
	// What a new definition needs of spans is known before it is in force.
	next := e2etest.WriteFile(t, t.TempDir(), "next.yaml", strings.NewReplacer("shop", "cart", "availability, ",
		"availability, group_by: [http_route, region], ").Replace(spanSpec))
	out, errOut, code = e2etest.Command(t, "diff", "--running", "--url", p.Base, next)
	require.Equal(t, 3, code, errOut)
	require.Regexp(t, `cart/availability  needs http_route, which spans of cart have since 20\S+Z at the latest\n`, out)
	require.Contains(t, out,
		"cart/availability  needs region, which spans of cart do not have until this spec is in force")
	p.Stop(t)
}
