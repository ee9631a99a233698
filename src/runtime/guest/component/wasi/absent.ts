/** What stands for a resource that no guest ever gets one of. */
class Absent {}

const ACCESS_DENIED = { tag: 'err', val: 'access-denied' } as const;
const denied = () => ACCESS_DENIED;
const nothing = () => undefined;

class Network {}

/**
 * Interfaces that guests import because their language's library does, and that are empty here: no directory is open,
 * no socket can be made. A guest links, and is told so when it asks.
 */
export const absentInterfaces = {
  'wasi:filesystem/preopens': { getDirectories: () => [] },
  'wasi:filesystem/types': { Descriptor: Absent, DirectoryEntryStream: Absent, filesystemErrorCode: nothing },
  'wasi:sockets/instance-network': { instanceNetwork: () => new Network() },
  'wasi:sockets/ip-name-lookup': { resolveAddresses: denied, ResolveAddressStream: Absent },
  'wasi:sockets/network': { Network, networkErrorCode: nothing },
  'wasi:sockets/tcp': { TcpSocket: Absent },
  'wasi:sockets/tcp-create-socket': { createTcpSocket: denied },
  'wasi:sockets/udp': { UdpSocket: Absent, IncomingDatagramStream: Absent, OutgoingDatagramStream: Absent },
  'wasi:sockets/udp-create-socket': { createUdpSocket: denied },
} as const;
