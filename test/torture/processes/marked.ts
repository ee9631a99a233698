import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

export interface FoundProcess {
  readonly pid: number;
  readonly commandLine: string;
}

/** Processes, other than this one, that carry the text in their environment or on their command line. A zombie has neither. */
export function processesWith(text: string): FoundProcess[] {
  const found: FoundProcess[] = [];
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const commandLine = read(pid, 'cmdline');
    if (!commandLine.includes(text) && !read(pid, 'environ').includes(text)) continue;
    found.push({ pid, commandLine: commandLine.replaceAll('\0', ' ').slice(0, 120) });
  }
  return found;
}

function read(pid: number, file: 'environ' | 'cmdline'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** The command lines of those that have the file open. A process that ended meanwhile has nothing open. */
export function holdersOf(file: string, processes: readonly FoundProcess[]): string[] {
  const holds = ({ pid }: FoundProcess) => {
    try {
      const folder = `/proc/${pid}/fd`;
      return readdirSync(folder).some((fd) => readlinkSync(`${folder}/${fd}`) === file);
    } catch {
      return false;
    }
  };
  return processes.filter(holds).map(({ commandLine }) => commandLine);
}
