export const doctorHelp = `spear doctor finds out why a task has no tools: it looks at everything between the guest and the model, and runs
no guest. What is wrong is shown with its fix.

Usage:
  spear doctor task.wasm --task-config FILE [--mcp-dir DIR | --sms HOST:PORT] [options]

What it looks at, in this order:
  Node and JSPI; the module and its imports; the task's config; the registry; every server that a session would have
  (record, references, connection, tools/list) and each of its tools; the backend; whether the model calls tools.
  Servers are started or connected to, and ended. The model gets one small request with one tool.

  --task-config FILE       the task, as for spear-run
  --mcp-dir DIR            records of MCP servers, or
  --sms HOST:PORT          the registry of an SMS; --sms-token, --sms-ca as for spear-run
  --strict                 refuse a directory with a wrong file
  --config FILE            the host's config, as for spear-run
  --backend NAME, --script FILE
                           which backend answers, as for spear-run
  --param KEY=JSON         as if the guest had set this session parameter (mcp.server_ids, mcp.tool_allowlist, …);
                           may be repeated
  --allow-unknown-imports  as for spear-run
  --no-model               ask no model
  --offline                start no server and ask no model
  --timeout-ms MS          for each step (default: 60000)
  --json                   one JSON value: ok, findings with what, status (ok, bad, skipped), text, cause, fix, children
  -h, --help               this text

Exit code:
  0 nothing is wrong; 1 something is; 2 bad usage; 130 Ctrl-C, 143 SIGTERM: ended before it knew.
`;

export const explainHelp = `spear explain answers why a task can or cannot call a tool, read a resource or get a prompt, layer by layer.

Usage:
  spear explain SERVER NAME --task-config FILE [--mcp-dir DIR | --sms HOST:PORT] [options]

The layers: task, session, registry, the tool lists of each, approval, budgets. No server is started, so the tool need
not exist; with --connect the server is asked too. Without a registry only the task's own layers are known.

  --kind KIND              what NAME is: tool (default), resource (its URI) or prompt
  --connect                ask the server whether it has the tool (starts or connects to it, and ends it)
  --param KEY=JSON         as if the guest had set this session parameter; may be repeated
  --mcp-dir, --sms, --sms-token, --sms-ca, --strict, --config, --timeout-ms, --json
                           as for spear doctor
  -h, --help               this text

Exit code:
  0 the task can call it, as far as was looked; 1 it cannot; 2 bad usage.
`;
