/**
 * WASI 0.2 interfaces that a component may import, in any version 0.2.x, which only ever grew. Those of file system and
 * sockets link but have no content.
 */
export const servedWasi = [
  'wasi:cli/environment',
  'wasi:cli/exit',
  'wasi:cli/stdin',
  'wasi:cli/stdout',
  'wasi:cli/stderr',
  'wasi:cli/terminal-input',
  'wasi:cli/terminal-output',
  'wasi:cli/terminal-stdin',
  'wasi:cli/terminal-stdout',
  'wasi:cli/terminal-stderr',
  'wasi:clocks/monotonic-clock',
  'wasi:clocks/wall-clock',
  'wasi:filesystem/preopens',
  'wasi:filesystem/types',
  'wasi:io/error',
  'wasi:io/poll',
  'wasi:io/streams',
  'wasi:random/insecure',
  'wasi:random/insecure-seed',
  'wasi:random/random',
  'wasi:sockets/instance-network',
  'wasi:sockets/ip-name-lookup',
  'wasi:sockets/network',
  'wasi:sockets/tcp',
  'wasi:sockets/tcp-create-socket',
  'wasi:sockets/udp',
  'wasi:sockets/udp-create-socket',
] as const;

export type ServedWasi = (typeof servedWasi)[number];
