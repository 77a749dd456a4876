package rulestest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

// ServeHTTP answers queries that have a matrix, as the API of a Prometheus does.
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	number := func(name string) int64 {
		x, err := strconv.ParseFloat(r.FormValue(name), 64)
		require.NoError(w.t, err)
		return int64(x*1e3 + 0.5)
	}
	var q promql.Query
	var err error
	if strings.HasSuffix(r.URL.Path, "/query_range") {
		q, err = w.engine.NewRangeQuery(r.Context(), w.db, nil, r.FormValue("query"), time.UnixMilli(number("start")),
			time.UnixMilli(number("end")), time.Duration(number("step"))*time.Millisecond)
	} else {
		q, err = w.engine.NewInstantQuery(r.Context(), w.db, nil, r.FormValue("query"), time.UnixMilli(number("time")))
	}
	require.NoError(w.t, err)
	defer q.Close()
	res := q.Exec(r.Context())
	m, err := res.Matrix()
	require.NoError(w.t, err)
	type one struct {
		Metric map[string]string `json:"metric"`
		Values [][2]any          `json:"values"`
	}
	result := []one{}
	for _, s := range m {
		x := one{Metric: s.Metric.Map()}
		for _, p := range s.Floats {
			x.Values = append(x.Values, [2]any{float64(p.T) / 1e3, strconv.FormatFloat(p.F, 'f', -1, 64)})
		}
		result = append(result, x)
	}
	require.NoError(w.t, json.NewEncoder(out).Encode(map[string]any{"status": "success",
		"data": map[string]any{"resultType": "matrix", "result": result}}))
}
