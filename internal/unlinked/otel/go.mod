module go.opentelemetry.io/otel

go 1.26.0

require go.opentelemetry.io/otel/trace v1.46.0
