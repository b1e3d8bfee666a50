import { render } from "preact";
import { App } from "./app";
import { startClock } from "./live/clock";
import { loadSession } from "./live/session";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/pages.css";

startClock();
void loadSession();
const root = document.getElementById("page");
if (root !== null) render(<App />, root);
