import { ToolEvents } from '../../agent/mcp/tool-events.ts';

/** Tools that are reported; a guest can invent names. */
const MAX_REPORTED = 50;

/**
 * Tool events of a run that can ask no user: reports each tool whose call was denied for lack of an approval, once, and
 * how to allow it. `why`: why no user can be asked.
 */
export function reportDeniedApprovals(why: string, say: (text: string) => void): ToolEvents {
  const reported = new Set<string>();
  const events = new ToolEvents();
  events.subscribe(({ server, tool, denial }) => {
    const key = JSON.stringify([server, tool]);
    if (denial !== 'approval_required' || reported.has(key) || reported.size >= MAX_REPORTED) return;
    reported.add(key);
    say(
      `approval denied: ${server} ${tool} needs an approval, and no user can be asked (${why}). To allow it, run ` +
        'spear-run in a terminal or with --approve sms; where approval_policy is "policy", an mcp.approval_rules entry ' +
        'with verdict "allow" needs no user',
    );
  });
  return events;
}
