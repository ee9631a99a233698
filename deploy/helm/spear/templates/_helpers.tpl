{{- define "spear.name" -}}
{{- printf "%s-spear" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "spear.labels" -}}
app.kubernetes.io/name: spear
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spear.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "spear.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "spear.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "spear.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: http, scheme: HTTPS }
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /healthz, port: http, scheme: HTTPS }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: http, scheme: HTTPS }
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}
