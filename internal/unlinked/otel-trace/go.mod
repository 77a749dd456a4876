module go.opentelemetry.io/otel/trace

go 1.26.0

require go.opentelemetry.io/otel v1.46.0
