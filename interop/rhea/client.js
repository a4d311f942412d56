// rhea (Node.js) through the scenarios of ../SCENARIOS.md.
//
//     node client.js SETTING.json [SCENARIO ...]
import { run } from './base.js';
import connections from './connections.js';
import deaths from './deaths.js';
import evidence from './evidence.js';
import links from './links.js';
import messages from './messages.js';

process.exit(await run({ ...connections, ...messages, ...links, ...deaths, ...evidence }));
